"""What the generators share: ranks, seeded values, and expect.json, taken from the values handed to the saver."""
import hashlib
import json
import math
import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def raw(t):
    """Row-major little-endian bytes of the values, conjugation and negation done."""
    t = t.detach().resolve_conj().resolve_neg().contiguous()
    if t.numel() == 0:
        return b""
    return t.clone().reshape(-1).view(torch.uint8).numpy().tobytes()


def entry(t):
    return {"dtype": str(t.dtype).removeprefix("torch."), "shape": list(t.shape), "sha256": hashlib.sha256(raw(t)).hexdigest()}


def values(*shape, dtype=torch.float32, seed=0):
    """Seeded random bits for integers and small floats, normal numbers for the rest."""
    g = torch.Generator().manual_seed(seed * 7919 + math.prod(shape) * 31 + len(shape))
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=g).bool()
    if dtype.is_complex and dtype != torch.complex32:
        return torch.randn(*shape, dtype=dtype, generator=g)
    if dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        return torch.randn(*shape, generator=g).to(dtype)
    n = math.prod(shape) * dtype.itemsize
    bits = torch.randint(0, 256, (n,), dtype=torch.uint8, generator=g)
    if dtype == torch.complex32:  # no NaN payloads: fp16 arithmetic never touches it, but keep it printable
        return torch.randn(*shape, dtype=torch.complex64, generator=g).to(dtype)
    return bits.view(dtype).reshape(shape)


def has_tensor(v, seen=()):
    if isinstance(v, torch.Tensor):
        return True
    if not isinstance(v, (dict, list, tuple, set, frozenset)) or id(v) in seen:
        return False
    below = v.values() if isinstance(v, dict) else v
    return any(has_tensor(x, (*seen, id(v))) for x in below)


def object_repr(v):
    if has_tensor(v):
        return "(long)"
    try:
        r = repr(v)
    except RecursionError:
        return "(long)"
    return r if len(r) <= 200 and " at 0x" not in r else "(long)"


def full(t):
    """The whole value of a DTensor or ShardedTensor-like leaf. Collective."""
    if hasattr(t, "full_tensor"):
        return t.full_tensor()
    return t


def expectation(flat, **more):
    """flat: {key: tensor or object}. A collective when it holds DTensors."""
    tensors, objects = {}, {}
    for k, v in flat.items():
        if isinstance(v, torch.Tensor):
            tensors[k] = entry(full(v))
        else:
            objects[k] = object_repr(v)
    return {"tensors": tensors, "objects": objects, "torch": torch.__version__, **more}


def write_expect(case_dir, exp):
    with open(os.path.join(case_dir, "expect.json"), "w", encoding="ascii") as f:
        json.dump(exp, f, indent=0, sort_keys=True)
        f.write("\n")


def _rank_main(rank, world, init, fn, args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{init}", rank=rank, world_size=world)
    try:
        fn(rank, world, *args)
        dist.barrier()
    finally:
        dist.destroy_process_group()


def run_ranks(world, fn, *args):
    """fn(rank, world, *args) in `world` processes joined by gloo."""
    with tempfile.TemporaryDirectory() as d:
        mp.start_processes(_rank_main, args=(world, os.path.join(d, "init"), fn, args), nprocs=world, start_method="fork")


def fresh(path):
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path
