#!/usr/bin/env python3
"""An archive that our planner of .pt files and our pickle writer make, one tensor of each dtype, in torch.load (mmap or not, weights_only) and zipfile.
SF_HEAVY=1: also one whose records lie behind a sparse tensor of 5 GB."""
import os, subprocess, sys, tempfile, warnings, zipfile

TOOL = os.environ.get("SF_WRITE_PT") or os.path.join(os.path.dirname(os.environ.get("SHARDFUSE", "./shardfuse")),
                                                     "tests/tool_write_pt")
passed, failed = 0, 0


def check(what, ok, why=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL: {what} {why}")


def skip(why):
    print(f"SKIP: {why}\n0 passed, 0 failed, 1 skipped")
    sys.exit(77)


try:
    import torch
except ImportError:
    skip("no torch")
if not os.access(TOOL, os.X_OK):
    skip(f"{TOOL} is not built")
warnings.filterwarnings("ignore")

# dtypes that this torch cannot load at all are left out of the comparison, never of the archive
names = ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32",
         "float64", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
         "float8_e8m0fnu", "float4_e2m1fn_x2"]
names = [n for n in names if hasattr(torch, n)]


def check_archive(path, big):
    with zipfile.ZipFile(path) as z:
        infos = z.infolist()
        check("zipfile sees all records", len(infos) == len(set(i.filename for i in infos)) and len(infos) > len(names))
        for i in infos:
            if big and i.filename == "archive/data/0":
                check("the big record's size", i.file_size == big)
                continue
            try:
                data = z.read(i)  # checks the CRC
                check(f"zipfile reads {i.filename}", len(data) == i.file_size)
            except Exception as e:
                check(f"zipfile reads {i.filename}", False, e)
        if not big:
            check("testzip", z.testzip() is None)
    for kw in [{}, {"mmap": True}, {"weights_only": True}, {"mmap": True, "weights_only": True}]:
        if big and not kw.get("mmap"):
            continue
        kw = {"weights_only": False, **kw}
        try:
            d = load_known(path, **kw)
        except Exception as e:
            check(f"torch.load {kw}", False, repr(e))
            continue
        if big:
            check("the big tensor", d["big"].shape == (big,) and int(d["big"][-1]) == 0)
        for n in names:
            dtype = getattr(torch, n)
            t = d[n]
            ok = t.dtype == dtype and tuple(t.shape) == (2, 3) and t.is_contiguous() and not t.requires_grad
            raw = bytes(t.untyped_storage().tolist()) if hasattr(t, "untyped_storage") else b""
            check(f"{n} {kw}", ok and raw == bytes(range(6 * t.element_size())), f"{t.dtype} {tuple(t.shape)}")


def load_known(path, **kw):
    """torch.load; names of dtypes it lacks (a newer torch's) stand for their bytes."""
    lacks = [n for n in ("bcomplex32", "float8_e8m0fnu", "float4_e2m1fn_x2") if not hasattr(torch, n)]
    for n in lacks:
        setattr(torch, n, torch.int32 if n == "bcomplex32" else torch.uint8)
    if lacks and kw.get("weights_only"):
        import torch._weights_only_unpickler as w
        w._get_allowed_globals().update({f"torch.{n}": getattr(torch, n) for n in lacks})
    try:
        return torch.load(path, **kw)
    finally:
        for n in lacks:
            delattr(torch, n)


with tempfile.TemporaryDirectory() as tmp:
    path = os.path.join(tmp, "checkpoint.pt")
    subprocess.run([TOOL, path], check=True)
    check_archive(path, 0)
    if os.environ.get("SF_HEAVY") == "1":
        subprocess.run([TOOL, path, str(5 * 10**9 + 1)], check=True)
        check_archive(path, 5 * 10**9 + 1)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
