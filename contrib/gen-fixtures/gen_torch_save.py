#!/usr/bin/env python3
"""Files of torch.save in every container it has had: gen_torch_save.py OUT.

NAME.pt, and NAME.leaves: a line for each leaf of the value, in its order:
    T PATH DTYPE SHAPE SHA256    a tensor: its dense little-endian bytes, conjugation done
    V PATH                       anything else
PATH: /KEY of a str in a dict, #KEY of an int, [I] in a list, (I) in a tuple.
stream_views and tar are put together by hand after torch's own readers, and read back by them here.
"""
import io
import os
import pickle
import struct
import sys
import tarfile
import zipfile
from collections import OrderedDict

import torch
import torch.nn as nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fixture import entry, values


def leaves(v, at=""):
    if isinstance(v, torch.Tensor):
        e = entry(v)
        return [f"T {at} {e['dtype']} {','.join(map(str, e['shape']))} {e['sha256']}"]
    if isinstance(v, dict) and v:
        return sum((leaves(x, f"{at}{'#' if isinstance(k, int) else '/'}{k}") for k, x in v.items()), [])
    if isinstance(v, (list, tuple)) and v:
        b = "[]" if isinstance(v, list) else "()"
        return sum((leaves(x, f"{at}{b[0]}{i}{b[1]}") for i, x in enumerate(v)), [])
    return [f"V {at}"]


def state():
    w = values(4, 3, seed=1)
    base = values(6, 5, dtype=torch.bfloat16, seed=2)
    return OrderedDict(
        model=OrderedDict(w=w, wt=w.t(), tied=w, rows=base[2:4], part=base[1:3, 2:4], empty=torch.zeros(0, 3)),
        optim={"state": {0: {"step": torch.tensor(3.0), "exp_avg": values(4, 3, seed=3)}, 1: {"step": 7}},
               "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [0, 1], "pair": (values(2, seed=4), "x")}]},
        epoch=3, none=None, nothing=[], classes={1, 2})


def newer(s, u16=True):
    s["conj"] = values(3, dtype=torch.complex64, seed=5).conj()
    if u16:  # torch cannot read these back out of a stream
        s["u16"] = values(5, dtype=torch.uint16, seed=6)
    return s


def write(out, name, data, v):
    with open(f"{out}/{name}.pt", "wb") as f:
        f.write(data)
    back = torch.load(f"{out}/{name}.pt", weights_only=False)
    assert leaves(back) == leaves(v), name
    with open(f"{out}/{name}.leaves", "w") as f:
        f.write("\n".join(leaves(v)) + "\n")


def saved(v, **how):
    b = io.BytesIO()
    torch.save(v, b, **how)
    return b.getvalue()


def big_endian(v):
    """What a big-endian machine writes. Values of one width only: storages have no dtype in a zip."""
    b = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(v))) as old, zipfile.ZipFile(b, "w") as new:
        for i in old.infolist():
            d = old.read(i)
            if i.filename.endswith("byteorder"):
                d = b"big"
            elif "/data/" in i.filename:
                d = b"".join(d[k:k + 4][::-1] for k in range(0, len(d), 4))
            new.writestr(i.filename, d)
    return b.getvalue()


STORAGE = {torch.float32: "FloatStorage", torch.bfloat16: "BFloat16Storage", torch.int64: "LongStorage"}


def raw(s):
    return bytes(s.untyped())


def stream_views(v):
    """Storage views as 0.1 to 0.3 had them: every storage but the first of its root is a view."""
    roots, whole = {}, torch.cat([t.reshape(-1) for t in v["t"]])
    at = 0

    class P(pickle.Pickler):
        def persistent_id(self, o):
            nonlocal at
            if isinstance(o, type) and issubclass(o, nn.Module) and o not in roots:
                roots[o] = None  # once: the id itself holds the class
                return ("module", o, "file.py", "source")
            if isinstance(o, torch.storage.TypedStorage):
                key = "100"
                res = ("storage", torch.FloatStorage, key, "cpu", whole.numel(), (f"v{at}", at, o._size()))
                at += o._size()
                return res
            return None

    b = io.BytesIO()
    for o in (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}):
        pickle.dump(o, b, protocol=2)
    P(b, protocol=2).dump(v)
    pickle.dump(["100"], b, protocol=2)
    b.write(struct.pack("<q", whole.numel()) + raw(whole.storage()))
    return b.getvalue()


def tar(v):
    storages, tensors = {}, {}

    class P(pickle.Pickler):
        def persistent_id(self, o):
            if isinstance(o, torch.Tensor):
                tensors.setdefault(id(o), o)
                return str(id(o))
            return None

    value = io.BytesIO()
    P(value, protocol=2).dump(v)
    keep = [t.storage() for t in tensors.values()]
    t_out, s_out = io.BytesIO(), io.BytesIO()
    pickle.dump(len(tensors), t_out, protocol=2)
    for (k, t), s in zip(tensors.items(), keep):
        key = 1000 + t.untyped_storage()._cdata % (1 << 40)
        storages[key] = s
        pickle.dump((k, key, torch.FloatTensor), t_out, protocol=2)
        t_out.write(struct.pack("<i", t.dim()) + b"\xff\xff\xff\xff" + struct.pack(f"<{2 * t.dim() + 1}q", *t.shape, *t.stride(), t.storage_offset()))
    pickle.dump(len(storages), s_out, protocol=2)
    for k, s in storages.items():
        pickle.dump((k, "cpu", getattr(torch, STORAGE[s.dtype])), s_out, protocol=2)
        s_out.write(struct.pack("<q", s._size()) + raw(s))
    pickle.dump([], s_out, protocol=2)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as f:
        for name, data in (("sys_info", pickle.dumps({}, 2)), ("pickle", value.getvalue()), ("tensors", t_out.getvalue()), ("storages", s_out.getvalue())):
            i = tarfile.TarInfo(name)
            i.size = len(data)
            f.addfile(i, io.BytesIO(data))
    return out.getvalue()


def main(out):
    os.makedirs(out, exist_ok=True)
    write(out, "zip", saved(newer(state())), newer(state()))
    write(out, "zip_big", big_endian(floats := {"a": values(3, 2), "b": [values(4, seed=1)]}), floats)
    for name, protocol in (("stream", 2), ("stream_p4", 4)):
        write(out, name, saved(newer(state(), False), _use_new_zipfile_serialization=False, pickle_protocol=protocol), newer(state(), False))
    v = {"t": [values(3, seed=1), values(2, 2, seed=2)], "class": nn.Linear}
    write(out, "stream_views", stream_views(v), v)
    write(out, "tar", tar(state()), state())


main(sys.argv[1])
