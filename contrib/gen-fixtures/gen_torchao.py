#!/usr/bin/env python3
"""Tensor subclasses as torchao has them, through torch's own saver: gen_torchao.py OUT. Wants torchao beside torch.

subclasses.json has, per key: class, dtype and shape that it pretends to have, and the tensors among its attributes (dotted where one is
such a tensor itself), hashed as in expect.json; of a sharded one a list of those, by rank.
"""
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn as nn
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

warnings.filterwarnings("ignore")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixture import entry, fresh, object_repr, run_ranks


def parts(t, at=""):
    out = {}
    for k, v in t.__dict__.items():
        if isinstance(v, torch.Tensor):
            out |= parts(v, at + k + ".") if type(v) is not torch.Tensor else {at + k: entry(v)}
    return out


def about(t):
    c = type(t)
    return {"class": f"{c.__module__}.{c.__qualname__}", "dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "parts": parts(t)}


def plain(t):
    return type(t) in (torch.Tensor, nn.Parameter)


def local(t):
    return t.to_local() if isinstance(t, DTensor) else t


def save(d, state, note):
    dcp.save(state, checkpoint_id=d + "/ckpt", no_dist=not dist.is_initialized())
    flat = flatten_state_dict(state)[0]
    rank = dist.get_rank() if dist.is_initialized() else 0
    exp = {"note": note, "torch": torch.__version__, "tensors": {}, "objects": {}, "subclasses": {}}
    for k, v in flat.items():
        if not isinstance(v, torch.Tensor):
            exp["objects"][k] = object_repr(v)
        elif plain(local(v)):
            exp["tensors"][k] = entry(v.full_tensor() if isinstance(v, DTensor) else v)
        elif isinstance(v, DTensor):
            each = [None] * dist.get_world_size()
            dist.all_gather_object(each, about(local(v)))
            exp["subclasses"][k] = each
        else:
            exp["subclasses"][k] = about(v)
    if rank == 0:
        with open(d + "/subclasses.json", "w", encoding="ascii") as f:
            json.dump(exp, f, indent=0, sort_keys=True)
            f.write("\n")


def one(d):
    import torchao
    from torchao.optim import AdamW4bit, AdamW8bit
    from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, quantize_
    torch.manual_seed(0)
    weights = {}
    for name, config, dtype in (("int8", Int8WeightOnlyConfig(), torch.float32), ("int8_bf16", Int8WeightOnlyConfig(), torch.bfloat16), ("float8", Float8WeightOnlyConfig(), torch.bfloat16)):
        m = nn.Linear(32, 24, dtype=dtype)
        quantize_(m, config)
        weights[name] = m.state_dict()
    optim = {}
    for cls in (AdamW8bit, AdamW4bit):
        m = nn.Linear(64, 64)
        o = cls(m.parameters())
        m(torch.ones(1, 64)).sum().backward()
        o.step()
        optim[cls.__name__] = get_state_dict(m, o)[1]["state"]
    save(d, {"model": weights, "optim": optim, "step": 7}, f"torchao {torchao.__version__}: int8 and float8 weights, 8- and 4-bit optimizer states")


def sharded(rank, world, d):
    from torchao.optim.subclass_8bit import OptimState8bit
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(rank)
    full = torch.randn(64, 64)
    half = OptimState8bit.zeros((32, 64), True, 256)
    half.codes.copy_(torch.randint(0, 256, (32, 64), dtype=torch.uint8))
    half.scale.copy_(torch.rand(half.scale.shape))
    state = {"model": {"w": distribute_tensor(full, mesh, [Shard(0)], src_data_rank=0)},
             "optim": {"state": {"w": {"exp_avg": DTensor.from_local(half, mesh, [Shard(0)], run_check=False), "step": torch.tensor(3.0)}}}}
    save(d, state, "torchao's 8-bit optimizer state sharded as FSDP2 does it: a DTensor whose local tensors are instances")


def main(out):
    os.makedirs(out, exist_ok=True)
    one(fresh(os.path.abspath(out) + "/single"))
    run_ranks(2, sharded, fresh(os.path.abspath(out) + "/sharded"))


if __name__ == "__main__":
    main(*sys.argv[1:])
