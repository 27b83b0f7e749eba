#!/usr/bin/env python3
"""Megatron's checkpoints through the mount and the verbs; against megatron-core itself where it is installed."""
import pathlib

from common import *

need_fuse()


def mounted_as_saved():
    """checkpoint.pt is what dcp_to_torch_save makes of it, lists around objects and all; a key's own file has what is in the list."""
    ckpt, exp = case("megatron/0.19.2-basic")
    with Mount(ckpt) as m:
        ref = reference(ckpt)
        d = same(torch.load(f"{m}/checkpoint.pt", weights_only=False), ref)
        check("checkpoint.pt", d is None, d)
        model = torch.load(f"{m}/model.pt", weights_only=False)
        tensors = {k for k, v in model.items() if isinstance(v, torch.Tensor)}
        check("model.pt has the tensors that are no optimizer's", tensors == {k for k in exp["tensors"] if not k.startswith("optimizer.")}, tensors)
        key = "decoder.layers.mlp.linear_fc1._extra_state/shard_0_2"
        v = torch.load(f"{m}/state/{state_dir(key)}/value.pt", weights_only=False)
        check("an object is out of its list", v.getvalue() == ref[key][0].getvalue(), v)
        common = torch.load(f"{m}/common.pt", weights_only=False)
        d = same(common, ref["common_state/shard_0_1"][0])
        check("common.pt is the common state", d is None, d)


def flattened():
    """What was flattened has its shape everywhere but in checkpoint.pt, which is dcp_to_torch_save's: in blocks."""
    ckpt, exp = case("megatron/0.9.0-flat")
    ref = reference(ckpt)
    blocks = [k for k, t in exp["tensors"].items() if "stored_shape" in t]
    with Mount(ckpt) as m, tempfile.TemporaryDirectory() as d:
        for mmap in (False, True):
            whole = torch.load(f"{m}/checkpoint.pt", weights_only=False, mmap=mmap)
            check(f"checkpoint.pt, mmap={mmap}", same(whole, ref) is None and blocks, same(whole, ref))
            check("in blocks", all(list(whole[k].shape) == exp["tensors"][k]["stored_shape"] for k in blocks), {k: whole[k].shape for k in blocks})
            del whole
        optim = torch.load(f"{m}/optim.pt", weights_only=False)
        check("optim.pt has shapes", all(agrees(optim[k.removeprefix("optimizer.")] if k.removeprefix("optimizer.") in optim else optim[k], exp["tensors"][k])
                                         for k in blocks if k.startswith("optimizer.")), list(optim)[:3])
        check("export", run("export", ckpt, f"{d}/x.pt", "--optim").returncode == 0 and same(torch.load(f"{d}/x.pt", weights_only=False), ref) is None)
        with open(f"{m}/checkpoint.pt", "rb") as f:
            data = f.read()
            for off in range(0, len(data), 997):
                f.seek(off)
                if not check(f"bytes from {off} on", f.read(331) == data[off:off + 331]):
                    break


def common_state():
    ckpt, _ = case("megatron/0.19.2-basic")
    r = run("get", ckpt, "--common")
    v = json.loads(r.stdout)
    check("--common nests", v["opt_param_scheduler"]["lr_decay_style"] == "cosine" and v["optimizer"]["optimizer"]["param_groups"][1]["lr"] == 1e-5
          and v["tup"][:3] == [1, "x", None] and v["0"]["1"] == {"a": 2} and v["small_tensor"] == {"$tensor": {"dtype": "int16", "shape": [5]}}, r.stdout)
    check("--common and KEY", run("get", ckpt, "--common", "x").returncode == 2)
    check("--common and -O", run("get", ckpt, "--common", "-O", "x.json").returncode == 2)
    check("no common state", run("get", f"{DATA}/dcp/fsdp4/ckpt", "--common").returncode == 1)
    check("info has content_metadata", jrun("info", ckpt)["content_metadata"]["singleton_local_shards"] is False)


def join_rules():
    ckpt = f"{DATA}/megatron/0.16.1-legacy/ckpt/iter_0000010"
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/rules", "w") as f:
            f.write("# per rank\n*linear_proj.weight rank\n")
        r = run("keys", ckpt, "--join-rules", f"{d}/rules")
        check("a rule of ours", "rank.mp_rank_01_001.decoder.layers.1.self_attention.linear_proj.weight" in r.stdout
              and "\ndecoder.layers.1.self_attention.linear_proj.weight" not in r.stdout, r.stdout[:500] + r.stderr)
        with Mount(ckpt, f"join_rules={d}/rules") as m:
            check("in a mount", os.path.isdir(f"{m}/state/rank/mp_rank_00_000/decoder/layers/0/self_attention/linear_proj/weight"))
        with open(f"{d}/bad", "w") as f:
            f.write("*x 0\n*y sideways\n")
        r = run("keys", ckpt, "--join-rules", f"{d}/bad")
        check("a rule that is none", r.returncode == 2 and "line 2" in r.stderr, r.stderr)
        check("no file", run("keys", ckpt, "--join-rules", f"{d}/none").returncode == 2)


def alone_optimizer():
    """A checkpoint of an optimizer's state alone is exported as it is."""
    ckpt, exp = case("megatron/0.9.0-flat")
    from safetensors import safe_open
    with tempfile.TemporaryDirectory() as d:
        keys = [k for k in exp["tensors"] if k.startswith("optimizer.")]
        r = run("export", ckpt, f"{d}/o.safetensors", "--format", "safetensors", "--key", "optimizer.*")
        with safe_open(f"{d}/o.safetensors", "pt") as f:
            check("optimizer alone", r.returncode == 0 and set(f.keys()) == set(keys), r.stderr)


def against_megatron():
    """load_plain_tensors of megatron-core: flattened ones come flat."""
    try:
        from megatron.core.dist_checkpointing import load_plain_tensors
    except Exception as e:
        skip("megatron-core", f"not installed ({type(e).__name__})")
        return
    import torch.distributed as dist
    with tempfile.TemporaryDirectory() as d:
        dist.init_process_group("gloo", init_method=f"file://{d}/init", rank=0, world_size=1)
        for name in ("0.15.3-flat", "0.15.3-irregular", "0.19.2-basic"):
            ckpt, exp = case(f"megatron/{name}")
            try:
                want = load_plain_tensors(pathlib.Path(ckpt))
            except Exception as e:
                skip(f"megatron-core reads {name}", f"{type(e).__name__}: {str(e)[:80]}")
                continue
            with Mount(ckpt) as m:
                for k in exp["tensors"]:
                    t = torch.load(f"{m}/pt/{flat(k)}.pt", weights_only=True)
                    check(f"{name} {k}", t.dtype == want[k].dtype and torch.equal(t.reshape(-1).view(torch.uint8), want[k].reshape(-1).view(torch.uint8)))
        dist.destroy_process_group()


for f in (mounted_as_saved, flattened, common_state, join_rules, alone_optimizer, against_megatron):
    with attempt(f.__name__):
        f()
finish()
