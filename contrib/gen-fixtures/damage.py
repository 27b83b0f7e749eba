#!/usr/bin/env python3
"""Make hostile checkpoints from a good DCP case: damage.py CASE OUT [NAME-GLOB].

OUT/NAME/ckpt is the damaged copy; OUT/NAME/damage.json says what was done and what a reader may do about it:
  expect  "refuse"  loading must fail, "partial" loading must work and only `broken` may fail,
          "either"  one of the two, "any" also whole and right (a flipped bit may hit nothing that matters)
  broken  the keys whose bytes may be unreadable; every other key must come out as before
  defect  verify must find something wrong
"""
import copy
import fnmatch
import io
import json
import os
import pickle
import random
import shutil
import struct
import sys
import zipfile

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from handmade import item_bytes
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

DAMAGE = {}
FAR = 1 << 64


def damage(expect="partial", defect=True):
    def deco(fn):
        DAMAGE[fn.__name__] = (fn, expect, defect)
        return fn
    return deco


class Ckpt:
    """A copy to be spoilt, with what the damages want to know about it."""

    def __init__(self, path):
        self.path = path
        with open(self.at(".metadata"), "rb") as f:
            self.raw = f.read()
        self.md = pickle.loads(self.raw)
        tensors = [k for k, v in self.md.state_dict_metadata.items() if isinstance(v, TensorStorageMetadata) and v.chunks and 0 not in v.size and len(v.size)]
        self.many = max(tensors, key=lambda k: len(self.md.state_dict_metadata[k].chunks))
        self.key = self.many
        self.file = self.info(self.key)[0][1].relative_path

    def at(self, name):
        return os.path.join(self.path, name)

    def info(self, key):
        """(index, storage info) of a key's items, in storage order."""
        return [(i, s) for i, s in self.md.storage_data.items() if i.fqn == key]

    def keys_of(self, file, beyond=0):
        """Keys with an item in `file` past `beyond`. In a SAFETENSORS blob (one offset for all its tensors) that is every tensor of it."""
        offs = [s.offset for i, s in self.md.storage_data.items() if s.relative_path == file and i.offset is not None]
        if len(set(offs)) < len(offs) and beyond > min(offs):
            beyond = min(offs)
        return sorted({i.fqn for i, s in self.md.storage_data.items() if s.relative_path == file and s.offset + s.length > beyond})

    def commit(self):
        with open(self.at(".metadata"), "wb") as f:
            pickle.dump(self.md, f)

    def raw_metadata(self, data):
        with open(self.at(".metadata"), "wb") as f:
            f.write(data)

    def replace_item(self, key, data, n=0):
        """Put other bytes in the place of a key's n-th item (in a file of its own)."""
        index, old = self.info(key)[n]
        name = f"replaced_{n}.distcp"
        with open(self.at(name), "wb") as f:
            f.write(data)
        new = copy.copy(old)
        new.relative_path, new.offset, new.length = name, 0, len(data)
        self.md.storage_data[index] = new
        self.commit()


# ---- the metadata file ----

@damage("refuse")
def meta_empty(c):
    c.raw_metadata(b"")


@damage("refuse")
def meta_one_byte(c):
    c.raw_metadata(b"\x80")


@damage("refuse")
def meta_half(c):
    c.raw_metadata(c.raw[:len(c.raw) // 2])


@damage("refuse")
def meta_less_one(c):
    c.raw_metadata(c.raw[:-1])


@damage("refuse")
def meta_missing(c):
    os.unlink(c.at(".metadata"))


@damage("refuse")
def meta_tmp_only(c):
    os.rename(c.at(".metadata"), c.at(".metadata.tmp"))


@damage("refuse")
def meta_directory(c):
    os.unlink(c.at(".metadata"))
    os.mkdir(c.at(".metadata"))


@damage("refuse")
def meta_fifo(c):
    os.unlink(c.at(".metadata"))
    os.mkfifo(c.at(".metadata"))


@damage("refuse")
def meta_zeros(c):
    c.raw_metadata(bytes(len(c.raw)))


@damage("refuse")
def meta_text(c):
    c.raw_metadata(b'{"not": "a pickle"}\n' * 100)


@damage("refuse")
def meta_other_pickle(c):
    c.raw_metadata(pickle.dumps({"state_dict_metadata": 5}))


@damage("refuse")
def meta_deep(c):
    n = 1 << 20
    c.raw_metadata(b"\x80\x04" + b"]" * n + b"a" * (n - 1) + b".")


@damage("refuse")
def meta_deep_tuples(c):
    c.raw_metadata(b"\x80\x04)" + b"\x85" * (1 << 20) + b".")


@damage("either")
def meta_laughs(c):
    """planner_data doubling 60 times through the memo: 2^60 values when walked without sharing."""
    x = ("lol",)
    for _ in range(60):
        x = (x, x)
    c.md.planner_data[c.key] = x
    c.commit()


@damage("refuse")
def meta_memo_index(c):
    """LONG_BINPUT far up: an array indexed by it must not be made."""
    c.raw_metadata(b"\x80\x02]r\xff\xff\xff\xff.")


@damage("refuse")
def meta_memo_many(c):
    c.raw_metadata(b"\x80\x04)" + b"\x94" * (8 << 20) + b".")


@damage("refuse")
def meta_long_string(c):
    c.raw_metadata(b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x.")


@damage("refuse")
def meta_long_bytes(c):
    c.raw_metadata(b"\x80\x04\x8e" + struct.pack("<Q", FAR - 1) + b"x.")


@damage("any", defect=False)
def meta_long_frame(c):
    """A reader may take frames as the hints they are."""
    c.raw_metadata(b"\x80\x04\x95" + struct.pack("<Q", FAR - 1) + c.raw[11:])


@damage("refuse")
def meta_negative_long(c):
    c.raw_metadata(b"\x80\x02\x8b" + struct.pack("<i", -5) + b"xxxxx.")


@damage("refuse")
def meta_stack_underflow(c):
    c.raw_metadata(b"\x80\x02s.")


@damage("refuse")
def meta_mark_missing(c):
    c.raw_metadata(b"\x80\x02]Ku.")


def flips(seed):
    def flip(c):
        r = random.Random(seed)
        b = bytearray(c.raw)
        for _ in range(r.randrange(1, 4)):
            b[r.randrange(len(b))] ^= 1 << r.randrange(8)
        c.raw_metadata(bytes(b))
    return flip


for _n in range(24):
    DAMAGE[f"meta_flip{_n:02}"] = (flips(_n), "any", False)


@damage("either", defect=False)
def meta_evil_globals(c):
    """Would run a command in a reader that unpickles: the marker must never appear."""
    marker = c.at("PWNED").encode()
    cmd = b"touch " + marker
    evil = b"cos\nsystem\nX" + struct.pack("<I", len(cmd)) + cmd + b"\x85R0"
    c.raw_metadata(c.raw[:2] + evil + c.raw[11:] if c.raw[2:3] == b"\x95" else c.raw[:2] + evil + c.raw[2:])


# ---- names and numbers in it ----

def rel(name):
    def f(c):
        for _, s in c.info(c.key)[:1]:
            s.relative_path = name(c) if callable(name) else name
        c.commit()
        return [c.key]
    return f


for _n, _v in {"dotdot": "../outside.distcp", "dotdot_inside": "x/../../outside.distcp", "absolute": lambda c: os.path.join(os.path.dirname(c.path), "outside.distcp"),
               "etc_passwd": "/etc/passwd", "empty": "", "nul": "__0_0.distcp\0x", "dot": ".", "long": "n" * 5000, "slash": "/", "not_text": 5, "none": None}.items():
    DAMAGE[f"path_{_n}"] = (rel(_v), "either", True)


def number(**kw):
    def f(c):
        for k, v in kw.items():
            setattr(c.info(c.key)[0][1], k, v)
        c.commit()
        return [c.key]
    return f


for _n, _v in {"length_far": {"length": FAR - 1}, "offset_far": {"offset": FAR - 8}, "both_far": {"offset": FAR - 8, "length": 16}, "offset_2_63": {"offset": 1 << 63},
               "offset_negative": {"offset": -1}, "length_negative": {"length": -8}, "length_huge": {"length": 1 << 200}, "length_0": {"length": 0}, "length_3": {"length": 3},
               "length_text": {"length": "12"}, "offset_float": {"offset": 1.5}, "length_past_end": {"length": 1 << 40}}.items():
    DAMAGE[f"item_{_n}"] = (number(**_v), "either", True)


def shape(fn):
    def f(c):
        fn(c.md.state_dict_metadata[c.key])
        c.commit()
        return [c.key]
    return f


def _size(s):
    def f(t):
        t.size = s
    return f


def _chunk(attr, fn):
    def f(t):
        setattr(t.chunks[0], attr, fn(t))
    return f


for _n, _v in {"size_far": _size((1 << 62, 1 << 62)), "size_negative": _size((-1, 4)), "size_dims65": _size((1,) * 65), "size_dims_10000": _size((1,) * 10000), "size_none": _size(None),
               "size_larger": lambda t: setattr(t, "size", (t.size[0] + 5, *t.size[1:])), "size_smaller": lambda t: setattr(t, "size", (1, *t.size[1:])),
               "chunk_offset_far": _chunk("offsets", lambda t: (FAR - 1,) * len(t.size)), "chunk_size_far": _chunk("sizes", lambda t: (FAR - 1,) * len(t.size)),
               "chunk_negative": _chunk("offsets", lambda t: (-1,) * len(t.size)), "chunk_dims": _chunk("offsets", lambda t: (0,)* (len(t.size) + 1)),
               "chunks_none": lambda t: setattr(t, "chunks", None), "properties_none": lambda t: setattr(t, "properties", None)}.items():
    DAMAGE[f"tensor_{_n}"] = (shape(_v), "either", True)


@damage("partial")
def hole(c):
    t = c.md.state_dict_metadata[c.key]
    gone = t.chunks.pop(0 if len(t.chunks) > 1 else -1)
    for i, _ in c.info(c.key):
        if tuple(i.offset) == tuple(gone.offsets):
            del c.md.storage_data[i]
            break
    c.commit()
    return [c.key]


@damage("partial")
def missing_item(c):
    del c.md.storage_data[c.info(c.key)[0][0]]
    c.commit()
    return [c.key]


@damage("partial", defect=True)
def overlap(c):
    """A second chunk over part of the first one, with other bytes: the first in chunk order wins, so nothing changes."""
    t = c.md.state_dict_metadata[c.key]
    first = t.chunks[0]
    if first.sizes[0] < 2:
        return None
    extra = copy.copy(first)
    extra.offsets = torch.Size([first.offsets[0] + 1, *first.offsets[1:]])
    extra.sizes = torch.Size([1, *first.sizes[1:]])
    t.chunks.append(extra)
    index = copy.copy(c.info(c.key)[0][0])
    object.__setattr__(index, "offset", extra.offsets)
    data = item_bytes(torch.full(tuple(extra.sizes), 3).to(t.properties.dtype))
    with open(c.at("overlap.distcp"), "wb") as f:
        f.write(data)
    c.md.storage_data[index] = _StorageInfo("overlap.distcp", 0, len(data))
    c.commit()
    return []


# ---- the stored files ----

@damage("partial")
def shard_half(c):
    n = os.path.getsize(c.at(c.file)) // 2
    os.truncate(c.at(c.file), n)
    return c.keys_of(c.file, beyond=n)


@damage("partial")
def shard_less_one(c):
    n = os.path.getsize(c.at(c.file)) - 1
    os.truncate(c.at(c.file), n)
    return c.keys_of(c.file, beyond=n)


@damage("partial")
def shard_missing(c):
    os.unlink(c.at(c.file))
    return c.keys_of(c.file)


@damage("partial")
def shard_empty(c):
    os.truncate(c.at(c.file), 0)
    return c.keys_of(c.file)


@damage("partial")
def shard_zeros(c):
    n = os.path.getsize(c.at(c.file))
    with open(c.at(c.file), "wb") as f:
        f.write(bytes(n))
    return c.keys_of(c.file)


@damage("partial")
def shard_noise(c):
    n = os.path.getsize(c.at(c.file))
    with open(c.at(c.file), "wb") as f:
        f.write(random.Random(1).randbytes(n))
    return c.keys_of(c.file)


@damage("either")
def shard_directory(c):
    os.unlink(c.at(c.file))
    os.mkdir(c.at(c.file))
    return c.keys_of(c.file)


@damage("either")
def shard_fifo(c):
    os.unlink(c.at(c.file))
    os.mkfifo(c.at(c.file))
    return c.keys_of(c.file)


@damage("either")
def shard_loop(c):
    os.unlink(c.at(c.file))
    os.symlink(os.path.basename(c.file), c.at(c.file))
    return c.keys_of(c.file)


@damage("either")
def shard_dev_zero(c):
    """A device that never ends in the place of a file."""
    os.unlink(c.at(c.file))
    os.symlink("/dev/zero", c.at(c.file))
    return c.keys_of(c.file)


# ---- the items ----

def deflated(pkl, extra=()):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        with z.open("archive/data.pkl", "w", force_zip64=True) as f:
            for part in pkl:
                f.write(part)
        z.writestr("archive/version", "3\n")
        for n, d in extra:
            z.writestr(n, d)
    return out.getvalue()


@damage("partial")
def item_deflate_bomb(c):
    c.replace_item(c.key, deflated(bytes(1 << 24) for _ in range(64)))
    return [c.key]


@damage("partial")
def object_deflate_bomb(c):
    """A bytes item whose pickle is one 1 GiB string: the value may load under its limits or be refused, and no more."""
    obj = next((k for k in c.md.state_dict_metadata if k not in dict.fromkeys(t for t, v in c.md.state_dict_metadata.items() if isinstance(v, TensorStorageMetadata))), None)
    if obj is None:
        return None
    def parts():
        yield b"\x80\x02X" + struct.pack("<I", 1 << 30)
        for _ in range(64):
            yield b"x" * (1 << 24)
        yield b"."
    c.replace_item(obj, deflated(parts()))
    return [obj]


def zstd_rle(nblocks):
    """A frame of RLE blocks, 128 KiB each from 4 bytes."""
    size = 128 << 10
    block = lambda last: struct.pack("<I", last | 1 << 1 | size << 3)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + block(0) * (nblocks - 1) + block(1)


@damage("partial")
def item_zstd_bomb(c):
    c.replace_item(c.key, zstd_rle(1 << 16))  # 8 GiB from 256 KiB
    c.info(c.key)[0][1].transform_descriptors = ["stream.zstd/1"]
    c.commit()
    return [c.key]


@damage("partial")
def item_zstd_garbage(c):
    for _, s in c.info(c.key)[:1]:
        s.transform_descriptors = ["stream.zstd/1"]
    c.commit()
    return [c.key]


@damage("either")
def item_unknown_transform(c):
    for _, s in c.info(c.key)[:1]:
        s.transform_descriptors = ["stream.rot13/1"]
    c.commit()
    return [c.key]


def tensor_item(pkl, payload=b"\0" * 64):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as z:
        for n, d in (("data.pkl", pkl), ("byteorder", b"little"), ("data/0", payload), ("version", b"3\n")):
            z.writestr("archive/" + n, d)
    return out.getvalue()


def rebuild(numel=16, off=0, size=(4, 4), stride=(4, 1), cls=b"torch\nFloatStorage"):
    def i(v):
        b = v.to_bytes(9, "little", signed=True)
        return b"\x8a\x09" + b
    tup = lambda t: b"(" + b"".join(map(i, t)) + b"t"
    s = lambda t: b"X" + struct.pack("<I", len(t)) + t
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + s(b"storage") + b"c" + cls + b"\n" + s(b"0") + s(b"cpu") + i(numel) + b"tQ" + i(off) + tup(size) + tup(stride)
            + b"\x89ccollections\nOrderedDict\n)RtR.")


for _n, _v in {"numel_far": {"numel": (1 << 63) - 1}, "offset_far": {"off": (1 << 63) - 1}, "offset_negative": {"off": -4}, "stride_far": {"stride": (1 << 62, 1)},
               "stride_negative": {"stride": (-4, 1)}, "size_other": {"size": (2, 2), "stride": (2, 1)}, "size_dims": {"size": (16,), "stride": (1, 1)},
               "size_negative": {"size": (-4, -4)}, "dtype_other": {"cls": b"torch\nHalfStorage", "numel": 32}, "storage_short": {"numel": 4}, "class_unknown": {"cls": b"os\nsystem"}}.items():
    def _mk(kw):
        def f(c):
            c.replace_item(c.key, tensor_item(rebuild(**kw)))
            return [c.key]
        return f
    DAMAGE[f"pkl_{_n}"] = (_mk(_v), "partial", True)


@damage("partial")
def pkl_evil(c):
    cmd = b"touch " + c.at("PWNED").encode()
    c.replace_item(c.key, tensor_item(b"\x80\x02cos\nsystem\nX" + struct.pack("<I", len(cmd)) + cmd + b"\x85R."))
    return [c.key]


@damage("partial")
def item_payload_short(c):
    c.replace_item(c.key, tensor_item(rebuild(), payload=b"\0" * 7))
    return [c.key]


@damage("partial")
def item_zip_directory_far(c):
    """Records in an order that needs the central directory, whose offsets point nowhere."""
    b = bytearray(item_bytes(torch.zeros(4, 4)))
    at = b.rfind(b"PK\5\6")
    b[at + 16:at + 20] = b"\xfe\xff\xff\xff"
    at = b.rfind(b"PK\6\6")
    if at >= 0:
        b[at + 48:at + 56] = struct.pack("<Q", FAR - 2)
    b[0:4] = b"PK\3\5"
    c.replace_item(c.key, bytes(b))
    return [c.key]


@damage("partial", defect=True)
def item_crc(c):
    """One payload byte flipped: only a deep verify can tell, and reads give the flipped byte."""
    _, s = next((i, s) for i, s in c.info(c.key) if s.length)
    with open(c.at(s.relative_path), "r+b") as f:
        f.seek(s.offset)
        item = f.read(s.length)
        z = zipfile.ZipFile(io.BytesIO(item))
        info = z.getinfo("archive/data/0")
        head = info.header_offset
        n, x = struct.unpack_from("<HH", item, head + 26)
        pos = head + 30 + n + x
        f.seek(s.offset + pos)
        f.write(bytes([item[pos] ^ 1]))
    return [c.key]


def make(case, out, glob="*"):
    """Yields (name, directory, description) of each damaged copy."""
    for name, (fn, expect, defect) in DAMAGE.items():
        if not fnmatch.fnmatch(name, glob):
            continue
        d = os.path.join(out, name)
        shutil.rmtree(d, ignore_errors=True)
        shutil.copytree(os.path.join(case, "ckpt"), os.path.join(d, "ckpt"))
        with open(os.path.join(d, "outside.distcp"), "wb") as f:
            f.write(b"outside" * 4096)
        os.chmod(os.path.join(d, "ckpt"), 0o755)
        for b, _, fs in os.walk(os.path.join(d, "ckpt")):
            for f in fs:
                os.chmod(os.path.join(b, f), 0o644)
        broken = fn(Ckpt(os.path.join(d, "ckpt")))
        if broken is None and expect not in ("refuse", "any", "either"):
            shutil.rmtree(d)
            continue
        desc = {"name": name, "expect": expect, "defect": defect, "broken": broken or [], "about": (fn.__doc__ or "").strip()}
        with open(os.path.join(d, "damage.json"), "w") as f:
            json.dump(desc, f, indent=1)
        yield name, d, desc


if __name__ == "__main__":
    for n, _, desc in make(*sys.argv[1:]):
        print(n, desc["expect"], *desc["broken"])
