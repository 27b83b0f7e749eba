#!/usr/bin/env python3
"""Emulate the layouts of old PyTorch releases: gen_old.py OUT.

The classes are those of the installed torch; the pickler spells their modules as the old releases did, and drops what
those had not. Nothing here was written by an old PyTorch: `note` in expect.json says EMULATED.
"""
import io
import os
import pickle
import sys
import zipfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixture import expectation, fresh, values, write_expect
from handmade import HandMade, item_bytes

NEW = "torch.distributed.checkpoint.metadata"
OLD = "torch.distributed._shard.checkpoint.metadata"
SHARDED = "torch.distributed._shard.sharded_tensor.metadata"
TO_2_2 = {(NEW, "TensorProperties"): (SHARDED, "TensorProperties"), (NEW, "_MEM_FORMAT_ENCODING"): (SHARDED, "MEM_FORMAT_ENCODING")}
TO_1_13 = TO_2_2 | {(NEW, c): (OLD, c) for c in ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata", "MetadataIndex")} | {
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): ("torch.distributed._shard.checkpoint.filesystem", "_StorageInfo")}


class Renaming(pickle._Pickler):
    """The pure Python pickler, writing some classes under other names."""

    def __init__(self, f, protocol, names):
        super().__init__(f, protocol)
        self.names = names

    def save_global(self, obj, name=None):
        new = self.names.get((getattr(obj, "__module__", None), name or getattr(obj, "__qualname__", None)))
        if new is None:
            return super().save_global(obj, name)
        if self.proto >= 4:
            self.save(new[0])
            self.save(new[1])
            self.write(pickle.STACK_GLOBAL)
        else:
            self.write(pickle.GLOBAL + f"{new[0]}\n{new[1]}\n".encode())
        self.memoize(obj)


def dumper(protocol, names):
    def dump(md, f):
        for k in ("storage_meta", "version"):  # neither existed
            md.__dict__.pop(k, None)
        Renaming(f, protocol, names).dump(md)
    return dump


def old_item(obj, records=("data.pkl", "data/", "version")):
    """torch.save's records as 1.13 wrote them: no byteorder, no serialization_id, lexicographic storage order."""
    src = zipfile.ZipFile(io.BytesIO(item_bytes(obj)))
    names = {n.split("/", 1)[1]: n for n in src.namelist()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        for want in records:
            for n in sorted(n for n in names if n == want or (want.endswith("/") and n.startswith(want))):
                z.writestr(zipfile.ZipInfo("archive/" + n, (1980, 1, 1, 0, 0, 0)), src.read(names[n]))
    return out.getvalue()


def blocks(t, cuts):
    """Row chunks of t at `cuts`: (offsets, extent, tensor)."""
    for a, b in zip(cuts, cuts[1:]):
        yield (a, *[0] * (t.ndim - 1)), (b - a, *t.shape[1:]), t[a:b].clone()


def write_1_13(d):
    """torch.distributed._shard.checkpoint: no flattening, one file an item, rank 0 writes what is not sharded."""
    h, flat, n = HandMade(d + "/ckpt", flatten=False), {}, [0, 0, 0]

    def file(r):
        n[r] += 1
        return f"__{r}_{n[r] - 1}.distcp"

    def obj(k, v):
        data, name = old_item(v), file(0)
        from handmade import _StorageInfo, BytesStorageMetadata
        h.md[k] = BytesStorageMetadata()
        h.storage[h.index(k, None)] = _StorageInfo(name, h.put(name, data), len(data))
        flat[k] = v

    obj("epoch", 3)
    obj("optim_state", {"state": {0: {"step": 5, "exp_avg": torch.ones(3)}}, "param_groups": [{"lr": 0.1, "params": [0]}]})
    for i, (k, shape, dtype) in enumerate([("module.emb.weight", (10, 6), torch.float32), ("module.fc.weight", (7, 5), torch.float16), ("module.half", (6, 2), torch.int64)]):
        t = flat[k] = values(*shape, dtype=dtype, seed=i)
        h.tensor(k, shape, dtype, [(o, e, file(r), old_item(x)) for r, (o, e, x) in enumerate(blocks(t, [0, shape[0] // 3, shape[0] // 2, shape[0]]))])
    for i, (k, t) in enumerate({"module.fc.bias": values(7, seed=9), "scalar": torch.tensor(2.5)}.items()):
        flat[k] = t
        h.tensor(k, t.shape, t.dtype, [((0,) * t.ndim, tuple(t.shape), file(0), old_item(t))])
    h.commit(dumper(3, TO_1_13))
    write_expect(d, expectation(flat, world=3, note="EMULATED: PyTorch 1.13's package, pickle protocol 3, planner_data None, a file per item, 1.13's zip records"))


def write_2_x(d, names, protocol, note):
    """2.0 to 2.3: flattened, but a dict without tensors is one bytes leaf with its int keys."""
    h, flat = HandMade(d + "/ckpt"), {}
    records = ("data.pkl", "byteorder", "data/", "version", ".data/")
    item = lambda o: old_item(o, records)
    for i, (k, shape) in enumerate({"model.tok.weight": (11, 4), "model.layers.0.w": (5, 3), "optimizer.state.model.tok.weight.exp_avg": (11, 4)}.items()):
        t = flat[k] = values(*shape, seed=i)
        path = ("optimizer", "state", "model.tok.weight", "exp_avg") if k.startswith("opt") else ("model", k[6:])
        h.tensor(k, shape, t.dtype, [(o, e, f"__{r}_0.distcp", item(x)) for r, (o, e, x) in enumerate(blocks(t, [0, (shape[0] + 1) // 2, shape[0]]))], path=path)
    from handmade import _StorageInfo, BytesStorageMetadata
    for k, (path, v) in {"optimizer.param_groups": (("optimizer", "param_groups"), [{"lr": 0.1, "betas": (0.9, 0.95), "params": ["model.tok.weight"]}]),
                         "scheduler": (("scheduler",), {"last_epoch": 3, "by_int": {0: 0.1, 1: 0.2}}), "step": (("step",), 12),
                         "none": (("none",), None), "empty": (("empty",), {})}.items():
        data = item(v)
        h.md[k] = BytesStorageMetadata()
        h.storage[h.index(k, None)] = _StorageInfo("__0_0.distcp", h.put("__0_0.distcp", data), len(data))
        h.planner[k], flat[k] = path, v
    h.commit(dumper(protocol, names))
    write_expect(d, expectation(flat, world=2, note=note))


def main(out):
    write_1_13(fresh(os.path.join(out, "old_1_13")))
    write_2_x(fresh(os.path.join(out, "old_2_2")), TO_2_2, 4, "EMULATED: PyTorch 2.0-2.3, a dict without tensors is one bytes leaf, old names of TensorProperties")
    write_2_x(fresh(os.path.join(out, "old_2_0_proto2")), TO_1_13, 2, "EMULATED: as old_2_2 with 1.13's package name and pickle protocol 2")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
