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


def test_stopped():
    """Nothing that is asked about a mountpoint waits for a daemon that does not answer."""
    ckpt, _ = case("dcp/fsdp4")
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/m")
        os.symlink("m", f"{d}/link")
        with Mount(ckpt, dir=f"{d}/m") as m:
            pid = daemon_of(m)
            os.kill(pid, signal.SIGSTOP)
            try:
                for name in ("m", "link"):
                    with attempt(f"mount over {name}, whose daemon is stopped"):
                        r = run(ckpt, f"{d}/{name}", timeout=60)
                        check(f"mount over {name}, whose daemon is stopped: exit 1 and what to do", r.returncode == 1 and "does not answer" in r.stderr and f"umount -z {d}/{name}" in r.stderr,
                              (r.returncode, r.stderr))
                with attempt("status of a stopped daemon"):
                    r = run("status", m, timeout=60)
                    check("status of a stopped daemon", r.returncode == 0 and "does not answer" in r.stdout, (r.returncode, r.stdout, r.stderr))
                with attempt("umount -z of a stopped daemon"):
                    r = run("umount", "-z", f"{d}/link", timeout=60)
                    check("umount -z of a stopped daemon", r.returncode == 0 and not mounted(m), (r.returncode, r.stderr))
            finally:
                os.kill(pid, signal.SIGCONT)
        with attempt("and the next mount works"), Mount(ckpt, dir=f"{d}/m") as m:
            check("and the next mount works", os.path.exists(f"{m}/README"))


ALL = [v for k, v in list(globals().items()) if k.startswith("test_") and callable(v)]
for t in ALL:
    with attempt(t.__name__):
        t()
finish()
