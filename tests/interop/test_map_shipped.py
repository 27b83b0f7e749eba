#!/usr/bin/env python3
"""The mappings that come with the program: a model of OLMo-core's names is what transformers loads, with the same logits. Where OLMo-core itself is
installed (pip install ai2-olmo-core), its own model is saved and compared."""
from common import *  # noqa: F403
import torch.distributed.checkpoint as dcp

need_fuse()
try:
    from transformers import AutoModelForCausalLM, LlamaConfig, Olmo2Config
except ImportError as e:
    skip_all(f"no {e.name}")
SIZE = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, vocab_size=97, max_position_embeddings=64,
            tie_word_embeddings=False)
PARTS = {"self_attn.q_proj": "attention.w_q", "self_attn.k_proj": "attention.w_k", "self_attn.v_proj": "attention.w_v", "self_attn.o_proj": "attention.w_out",
         "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3", "self_attn.q_norm": "attention.q_norm",
         "self_attn.k_norm": "attention.k_norm"}
NORMS = {"llama": {"input_layernorm": "attention_norm", "post_attention_layernorm": "feed_forward_norm"},
         "olmo2": {"post_attention_layernorm": "attention_norm", "post_feedforward_layernorm": "feed_forward_norm"}}


def olmo_name(name, kind):
    """transformers' name as OLMo-core has it."""
    name = name.removesuffix(".weight")
    top = {"model.embed_tokens": "embeddings", "model.norm": "lm_head.norm", "lm_head": "lm_head.w_out"}
    if name in top:
        return top[name] + ".weight"
    _, _, layer, part = name.split(".", 3)
    return f"blocks.{layer}.{ {**PARTS, **NORMS[kind]}[part]}.weight"


def shown(d, kind, state, config, logits, x, group="model"):
    dcp.save({group: state} if group else state, checkpoint_id=f"{d}/ckpt", no_dist=True)
    config.save_pretrained(f"{d}/config")
    with Mount(f"{d}/ckpt", f"hf_files={d}/config", f"hf_map=@olmo-core-{kind}") as m:
        model = AutoModelForCausalLM.from_pretrained(f"{m}/hf", dtype=torch.float32).eval()
        with torch.no_grad():
            got = model(x).logits
        check(f"{kind}, group {group!r}: the same logits", torch.equal(got, logits), float((got - logits).abs().max()))
        del model


def by_names(d, kind, group):
    config = (LlamaConfig if kind == "llama" else Olmo2Config)(**SIZE)
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.3)
        x = torch.randint(0, 97, (2, 11))
        logits = model(x).logits
    shown(d, kind, {olmo_name(k, kind): v for k, v in model.state_dict().items()}, config, logits, x, group)


def by_olmo_core(d, kind):
    try:
        from olmo_core.nn.layer_norm import LayerNormType
        from olmo_core.nn.transformer import TransformerConfig
        from olmo_core.nn.transformer.config import TransformerBlockType
    except ImportError as e:
        return skip(f"OLMo-core's own {kind}", f"no {e.name}")
    reordered = dict(block_name=TransformerBlockType.reordered_norm, qk_norm=True) if kind == "olmo2" else {}
    model = TransformerConfig.llama_like(d_model=32, n_layers=3, n_heads=4, n_kv_heads=2, vocab_size=97, layer_norm_name=LayerNormType.rms, layer_norm_eps=1e-6,
                                         **reordered).build(init_device="cpu").eval()
    torch.manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.3)
        x = torch.randint(0, 97, (2, 11))
        logits = model(x)
        logits = logits if torch.is_tensor(logits) else logits.logits
    size = dict(SIZE, intermediate_size=model.blocks["0"].feed_forward.w1.weight.shape[0], rms_norm_eps=1e-6)
    config = (LlamaConfig if kind == "llama" else Olmo2Config)(**size, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    shown(d, kind, model.state_dict(), config, logits, x)


for kind in ("llama", "olmo2"):
    for what, fn, args in (("names", by_names, ("model",)), ("names, no group", by_names, (None,)), ("OLMo-core", by_olmo_core, ())):
        with tempfile.TemporaryDirectory(prefix="sf-interop-") as d, attempt(f"{kind}: {what}"):
            fn(d, kind, *args)
with tempfile.TemporaryDirectory(prefix="sf-interop-") as d:
    r = run("keys", f"{DATA}/dcp-2.14/fsdp4/ckpt", "--map", "@olmo-core-nothing")
    check("a mapping that is none names those that are", r.returncode == 2 and "olmo-core-llama" in r.stderr, (r.returncode, r.stderr))
finish()
