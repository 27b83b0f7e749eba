#!/usr/bin/env python3
"""The process behind a mount: its parent's exit code, its trace, what it does with a mountpoint whose daemon hangs."""
import select
import shutil
import socket

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


def test_descriptors():
    """What the caller had open is not kept open by the mount: a pipe's reader hears its end."""
    ckpt, _ = case("dcp/fsdp4")
    r, w = os.pipe()
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/m")
        subprocess.run(["bash", "-c", f'exec "$@" 3>&{w}', "bash", BIN, ckpt, f"{d}/m"], pass_fds=(w,), check=True)
        os.close(w)
        check("a mount is up", mounted(f"{d}/m"))
        check("and its daemon holds no descriptor of the caller", select.select([r], [], [], 10)[0] and os.read(r, 1) == b"")
        unmount(f"{d}/m")
    os.close(r)


def test_silence():
    """A mount in the foreground that waits for a server ends when it is told to, not at its deadline of an hour."""
    if "without libcurl" in run("info", "http://127.0.0.1:9/x").stderr:
        return skip("a silent server", "this build has no libcurl")
    for sig in (signal.SIGINT, signal.SIGTERM):
        with tempfile.TemporaryDirectory() as d, socket.create_server(("127.0.0.1", 0)) as server:
            os.mkdir(f"{d}/m")
            p = subprocess.Popen([BIN, f"http://127.0.0.1:{server.getsockname()[1]}/x", f"{d}/m", "-f", "--timeout=3600", "--cache-size=0"], stderr=subprocess.PIPE)
            server.settimeout(60)
            conn, _ = server.accept()  # it waits for an answer now
            p.send_signal(sig)
            try:
                check(f"{sig.name} ends a mount that waits for a server", p.wait(timeout=60) == -sig, p.returncode)
            except subprocess.TimeoutExpired:
                check(f"{sig.name} ends a mount that waits for a server", False, "it did not end in a minute")
                p.kill()
            p.communicate()
            conn.close()


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


def test_trace_nowhere():
    """A trace that cannot be written is one line, as git's; the verb and the mount go on."""
    ckpt, _ = case("dcp/fsdp4")
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/m")
        env = {"SF_TRACE": f"{d}/none/trace"}
        r = run("keys", ckpt, env=env)
        check("SF_TRACE that cannot be opened: one line, and the verb's work", r.returncode == 0 and r.stdout and len(r.stderr.splitlines()) == 1 and f"{d}/none/trace" in r.stderr and "No such file" in r.stderr,
              (r.returncode, r.stderr))
        r = run(ckpt, f"{d}/m", env=env)
        check("and the mount's", r.returncode == 0 and mounted(f"{d}/m") and r.stderr.count(f"{d}/none/trace") == 1, (r.returncode, r.stderr))
        unmount(f"{d}/m")


def test_names():
    """A command in a message is safe to paste, whatever the mountpoint is called."""
    ckpt, _ = case("dcp/fsdp4")
    for name in ("m; >PWNED", "$(>PWNED)", "-z", "it's", "a'; >PWNED; '", "b\\", "n\n>PWNED"):
        with attempt(f"a mountpoint called {name!r}"), tempfile.TemporaryDirectory() as d:
            os.mkdir(f"{d}/{name}")
            os.mkdir(f"{d}/bin")
            os.symlink(os.path.abspath(BIN), f"{d}/bin/shardfuse")
            with Mount(ckpt, dir=f"{d}/{name}") as m:
                r = run("mount", "--", ckpt, name, cwd=d)
                line = r.stderr.rpartition("to end it: ")[2].rpartition("\n")[0]
                check(f"mount over {name!r}: exit 1 and a command", r.returncode == 1 and line.startswith("shardfuse umount "), (r.returncode, r.stderr))
                if line.startswith("shardfuse umount "):
                    subprocess.run(["bash", "-c", line], cwd=d, env={**os.environ, "PATH": f"{d}/bin:{os.environ['PATH']}"}, capture_output=True, timeout=60)
                    check(f"what it does is safe: {name!r}", sorted(os.listdir(d)) == sorted([name, "bin"]), (line, os.listdir(d)))
                    check(f"and it unmounts {name!r}, where it names it", not mounted(m) or line == "shardfuse umount MOUNTPOINT", line)
    with attempt("SOURCE alone"), tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/a; >PWNED")
        r = run("a; >PWNED", cwd=d)
        check("SOURCE alone: the command is quoted", r.returncode == 2 and "(shardfuse info 'a; >PWNED')" in r.stderr, r.stderr)


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
