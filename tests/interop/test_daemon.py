#!/usr/bin/env python3
"""The process behind a mount: its parent's exit code, its trace, what it does with a mountpoint whose daemon hangs."""
import shutil

from common import *

need_fuse()


def traced(ckpt, *opts):
    """Mount with SF_TRACE; the parent's exit code, its words, the trace's lines after README was read."""
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/m")
        r = run(ckpt, f"{d}/m", *opts, env={"SF_TRACE": f"{d}/trace"})
        up = mounted(f"{d}/m")
        if up:
            pread = [open(f"{d}/m/{f}", "rb").read(65536) for f in ("README", "checkpoint.pt")]
            check("a traced mount reads", all(pread))
        unmount(f"{d}/m")
        with open(f"{d}/trace") as f:
            return r, up, f.read().splitlines()


def test_trace():
    ckpt, _ = case("dcp/fsdp4")
    r, up, lines = traced(ckpt)
    check("SF_TRACE and a mount in the background", r.returncode == 0 and up, r.stderr)
    try:
        reads = [strict_json(line) for line in lines]
        check("the trace has the reads of load and of the mount", {".metadata"} < {x["file"] for x in reads} and {"metadata", "tensor"} <= {x["kind"] for x in reads}, reads[:3])
    except ValueError as e:
        check("every line of the trace is JSON", False, e)
    with tempfile.TemporaryDirectory() as bad:
        for f in os.listdir(ckpt):
            shutil.copy(f"{ckpt}/{f}", bad)
        with open(f"{bad}/.metadata", "r+b") as f:
            f.truncate(os.path.getsize(f"{bad}/.metadata") // 2)  # load reads it, and fails
        r, up, lines = traced(bad)
        check("SF_TRACE and a mount that fails: exit 1 and its reason", r.returncode == 1 and ".metadata" in r.stderr and not up, (r.returncode, r.stderr))
        check("and the trace has the read", any('".metadata"' in line for line in lines), lines)


ALL = [v for k, v in list(globals().items()) if k.startswith("test_") and callable(v)]
for t in ALL:
    with attempt(t.__name__):
        t()
finish()
