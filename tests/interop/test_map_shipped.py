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


def fused(state, stacked):
    """Llama's weights as Megatron-Core has them: rows of queries, keys and values by query group, gates above ups, layers stacked or numbered."""
    heads, groups, layers = SIZE["num_attention_heads"], SIZE["num_key_value_heads"], SIZE["num_hidden_layers"]
    hd = SIZE["hidden_size"] // heads
    w = lambda i, part: state[f"model.layers.{i}.{part}.weight"]
    qkv = lambda i: torch.cat([p for g in range(groups) for p in (w(i, "self_attn.q_proj")[g * heads // groups * hd:(g + 1) * heads // groups * hd],
                                                                  w(i, "self_attn.k_proj")[g * hd:(g + 1) * hd], w(i, "self_attn.v_proj")[g * hd:(g + 1) * hd])])
    parts = {"self_attention.linear_qkv.weight": qkv, "self_attention.linear_proj.weight": lambda i: w(i, "self_attn.o_proj"),
             "mlp.linear_fc1.weight": lambda i: torch.cat([w(i, "mlp.gate_proj"), w(i, "mlp.up_proj")]), "mlp.linear_fc2.weight": lambda i: w(i, "mlp.down_proj")}
    norms = ("self_attention.linear_qkv.layer_norm_weight", "mlp.linear_fc1.layer_norm_weight") if stacked else ("input_layernorm.weight", "pre_mlp_layernorm.weight")
    parts.update({norms[0]: lambda i: w(i, "input_layernorm"), norms[1]: lambda i: w(i, "post_attention_layernorm")})
    out = {"embedding.word_embeddings.weight": state["model.embed_tokens.weight"], "decoder.final_layernorm.weight": state["model.norm.weight"],
           "output_layer.weight": state["lm_head.weight"]}
    for name, fn in parts.items():
        if stacked:
            out[f"decoder.layers.{name}"] = torch.stack([fn(i) for i in range(layers)])
        else:
            out.update({f"decoder.layers.{i}.{name}": fn(i) for i in range(layers)})
    return out


def by_megatron(d, stacked):
    config = LlamaConfig(**SIZE)
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.3)
        x = torch.randint(0, 97, (2, 11))
        logits = model(x).logits
    want = dict(model.state_dict())
    dcp.save(fused(want, stacked), checkpoint_id=f"{d}/ckpt", no_dist=True)
    with open(f"{d}/ckpt/metadata.json", "w") as f:
        f.write('{"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}')
    torch.save({"iteration": 7}, f"{d}/ckpt/common.pt")
    config.save_pretrained(f"{d}/config")
    mapping = f"@megatron-llama:{SIZE['num_attention_heads']}:{SIZE['num_key_value_heads']}"
    with open(f"{d}/rules", "w") as f:
        f.write("*word_embeddings.weight copy\nlm_head.weight copy\n")
    with Mount(f"{d}/ckpt", f"hf_files={d}/config", f"map={mapping}", "slice=tp:2", f"join_rules={d}/rules") as m:
        for name in ("hf/model.safetensors", "model.safetensors", "checkpoint.safetensors"):
            got = safetensors.torch.load_file(f"{m}/{name}")
            check(f"{name}: the names", set(want) <= set(got) and not any("linear_" in k for k in got), set(got) ^ set(want))
            bad = [k for k in want if k not in got or not torch.equal(got[k], want[k])]
            check(f"{name}: the values", not bad, bad[:5])
        pt = tensors_of(torch.load(f"{m}/model.pt", weights_only=True))
        check("model.pt", all(torch.equal(pt[k], want[k]) for k in want) and len(pt) == len(want), set(pt) ^ set(want))
        k = "model.layers.1.self_attn.k_proj.weight"
        check("npy, pt, state", np.array_equal(np.load(f"{m}/npy/{k}.npy"), want[k].numpy()) and torch.equal(torch.load(f"{m}/pt/{k}.pt"), want[k])
              and np.array_equal(np.load(f"{m}/state/{k.replace('.', '/')}/tensor.npy"), want[k].numpy()))
        cut = safetensors.torch.load_file(f"{m}/slices/tp2/rank1/model.safetensors")
        check("slices", all(torch.equal(cut[k], want[k].chunk(2, 1 if re.search("o_proj|down_proj", k) else 0)[1]) for k in want if "norm" not in k and "proj" in k))
        model = AutoModelForCausalLM.from_pretrained(f"{m}/hf", dtype=torch.float32).eval()
        with torch.no_grad():
            got = model(x).logits
        check("the same logits", torch.equal(got, logits), float((got - logits).abs().max()))
        del model, pt, cut
    r = run("get", f"{d}/ckpt", f"{k}[1:5]", "--map", mapping, "--format", "json", "-O", "-")
    check("get of a slice", np.array_equal(np.array(json.loads(r.stdout), dtype=np.float32), want[k][1:5].numpy()) if r.returncode == 0 else False, r.stdout[:200] + r.stderr)
    r = run("verify", f"{d}/ckpt", "--deep", "--map", mapping)
    check("verify --deep", r.returncode == 0, r.stdout + r.stderr)
    r = run("explain", f"{d}/ckpt", k, "--map", mapping)
    check("explain names what it is a part of", r.returncode == 2 and "linear_qkv.weight" in r.stderr, r.stderr)
    r = run("keys", f"{d}/ckpt", "--map", "@megatron-llama:3:3")
    check("heads that are not these", r.returncode == 1 and "rows" in r.stderr, r.stderr)
    for bad in ("@megatron-llama", "@megatron-llama:4", "@megatron-llama:4:3", "@megatron-llama:4:0", "@megatron-llama:4:2x"):
        r = run("keys", f"{d}/ckpt", "--map", bad)
        check(bad, r.returncode == 2 and "HEADS:GROUPS" in r.stderr, r.stderr)
    check("not of hf/ alone", run("ls", f"{d}/ckpt", "--hf-map", mapping).returncode == 2)


for stacked in (True, False):
    with tempfile.TemporaryDirectory(prefix="sf-interop-") as d, attempt(f"megatron, {'stacked' if stacked else 'numbered'}"):
        by_megatron(d, stacked)
for kind in ("llama", "olmo2"):
    for what, fn, args in (("names", by_names, ("model",)), ("names, no group", by_names, (None,)), ("OLMo-core", by_olmo_core, ())):
        with tempfile.TemporaryDirectory(prefix="sf-interop-") as d, attempt(f"{kind}: {what}"):
            fn(d, kind, *args)
with tempfile.TemporaryDirectory(prefix="sf-interop-") as d:
    r = run("keys", f"{DATA}/dcp-2.14/fsdp4/ckpt", "--map", "@olmo-core-nothing")
    check("a mapping that is none names those that are", r.returncode == 2 and "olmo-core-llama" in r.stderr, (r.returncode, r.stderr))
finish()
