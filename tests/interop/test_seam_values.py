#!/usr/bin/env python3
"""A format of the tests' own makes each leaf of a torch.save file a key (tests/format/test_seams_values.c): torch.load of the .pt
file of all keys gives the value that torch.load of the stored file gives, dicts of ints, tuples and ties too."""
import os, subprocess, sys, tempfile, warnings

PROGRAM = os.path.join(os.path.dirname(os.environ.get("SHARDFUSE", "./shardfuse")), "tests/format/test_seams_values")
DATA = os.path.join(os.environ["SF_TEST_DATA"], "torch-save")
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
if not os.access(PROGRAM, os.X_OK):
    skip(f"{PROGRAM} is not built")
warnings.filterwarnings("ignore")


def leaves(v, at=()):
    if isinstance(v, dict) and v:
        return sum((leaves(x, at + ("dict", k)) for k, x in v.items()), [])
    if isinstance(v, (list, tuple)) and v:
        return sum((leaves(x, at + (type(v).__name__, i)) for i, x in enumerate(v)), [])
    return [(at, v)]


def same(a, b):
    if not isinstance(a, torch.Tensor):
        return type(a) is type(b) and a == b
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.resolve_conj(), b.resolve_conj())


with tempfile.TemporaryDirectory() as out:
    run = subprocess.run([PROGRAM], env={**os.environ, "SF_SEAM_OUT": out}, capture_output=True, text=True)
    check("the program that writes", run.returncode == 0, run.stdout[-1000:])
    for name in ["zip", "stream", "stream_p4", "stream_views", "tar"]:
        want = leaves(torch.load(f"{DATA}/{name}.pt", weights_only=False))
        for how in [{"weights_only": False}, {"weights_only": True}, {"weights_only": False, "mmap": True}]:
            if name == "stream_views" and how["weights_only"]:
                continue  # it holds a class
            got = leaves(torch.load(f"{out}/{name}.pt", **how))
            check(f"{name} {how}: keys", [k for k, _ in got] == [k for k, _ in want])
            for (k, a), (_, b) in zip(got, want):
                check(f"{name} {how}: {k}", same(a, b), f"{a} {b}")
            if name != "stream_views":
                d = {k[1::2]: v for k, v in got if isinstance(v, torch.Tensor)}
                w, tied = d["model", "w"], d["model", "tied"]
                check(f"{name} {how}: tied weights are one", w.data_ptr() == tied.data_ptr())
                check(f"{name} {how}: others are not", w.data_ptr() != d["model", "rows"].data_ptr())

print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)
