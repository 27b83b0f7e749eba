#!/usr/bin/env python3
"""transformers and accelerate load the hf/ view, one file and indexed, as they load a downloaded model."""
import os

from common import *

try:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers
except ImportError:
    transformers = None
try:
    import accelerate
except ImportError:
    accelerate = None
if transformers is None:
    skip_all("no transformers")
need_fuse()
transformers.logging.set_verbosity_error()
CKPT, EXP = case("dcp/hf_flat")
VIEWS = {"one file": (), "indexed": ("max_shard_size=10KB",)}


def whole(name, sd):
    bad = [k for k, e in EXP["tensors"].items() if k not in sd or not agrees(sd[k], e)]
    check(f"{name}: every weight is the checkpoint's", not bad, bad[:4])


for label, opts in VIEWS.items():
    with attempt(f"from_pretrained, {label}"), Mount(CKPT, *opts) as m:
        model, report = transformers.AutoModelForCausalLM.from_pretrained(f"{m}/hf", output_loading_info=True)
        whole(f"from_pretrained, {label}", model.state_dict())
        check(f"from_pretrained, {label}: nothing missing, nothing unexpected", not report["missing_keys"] and not report["unexpected_keys"], report)
        out = model(torch.tensor([[1, 2, 3]])).logits
        check(f"from_pretrained, {label}: it runs", bool(torch.isfinite(out).all()))
        model = out = None
    with attempt(f"from_pretrained of wrapped names, {label}"), Mount(case("dcp/orig_mod")[0], *opts, f"hf_files={CKPT}") as m:
        cfg = transformers.AutoConfig.from_pretrained(f"{m}/hf")
        cfg.num_hidden_layers = 1
        model, report = transformers.AutoModelForCausalLM.from_pretrained(f"{m}/hf", config=cfg, output_loading_info=True)
        check(f"wrapped names, {label}: nothing is left random", not report["missing_keys"], report["missing_keys"])
        model = None
    if accelerate is None:
        skip("load_checkpoint_and_dispatch", "no accelerate")
        continue
    with attempt(f"load_checkpoint_and_dispatch, {label}"), Mount(CKPT, *opts) as m:
        cfg = transformers.AutoConfig.from_pretrained(f"{m}/hf")
        with accelerate.init_empty_weights():
            model = transformers.AutoModelForCausalLM.from_config(cfg)
        where = f"{m}/hf/model.safetensors.index.json" if label == "indexed" else f"{m}/hf/model.safetensors"
        model = accelerate.load_checkpoint_and_dispatch(model, where, device_map={"": "cpu"}, dtype=torch.float32)
        whole(f"load_checkpoint_and_dispatch, {label}", model.state_dict())
        model = None
    with attempt(f"dtype=bf16 from_pretrained, {label}"), Mount(CKPT, *opts, "dtype=bf16") as m:
        model = transformers.AutoModelForCausalLM.from_pretrained(f"{m}/hf", torch_dtype="auto")
        check(f"dtype=bf16, {label}: torch_dtype=auto gives bfloat16", model.dtype == torch.bfloat16, model.dtype)
        model = None
finish()
