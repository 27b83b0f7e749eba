#!/usr/bin/env python3
"""A file that our planner of safetensors files makes from memory: safetensors reads it, and writes the same bytes itself."""
import os, subprocess, sys, tempfile

TOOL = os.environ.get("SF_WRITE_ST") or os.path.join(os.path.dirname(os.environ.get("SHARDFUSE", "./shardfuse")),
                                                     "tests/tool_write_st")
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
    from safetensors import safe_open
    from safetensors.torch import load, save
except ImportError as e:
    skip(f"no {e.name}")
if not os.access(TOOL, os.X_OK):
    skip(f"{TOOL} is not built")

with tempfile.TemporaryDirectory() as tmp:
    path = os.path.join(tmp, "x.safetensors")
    subprocess.run([TOOL, path], check=True)
    with open(path, "rb") as f:
        whole = f.read()
    with safe_open(path, "pt") as f:
        check("its metadata", f.metadata() == {"format": "pt"}, f.metadata())
    tensors = load(whole)
    check("all dtypes are there", {"float32", "bfloat16", "int64", "bool", "float8_e4m3fn"} <= set(tensors), sorted(tensors))
    for name, t in tensors.items():
        check(f"{name}: dtype and shape", t.dtype == getattr(torch, name) and list(t.shape) == [2, 3], t)
        got = t.contiguous().view(torch.uint8).flatten().tolist()
        check(f"{name}: bytes", got == list(range(6 * t.element_size())), got)
    # sorted by its own rules, whatever order the dict has
    theirs = save(dict(reversed(list(tensors.items()))), {"format": "pt"})
    check("safetensors writes the same file", theirs == whole, f"{len(theirs)} bytes, ours {len(whole)}")

print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
