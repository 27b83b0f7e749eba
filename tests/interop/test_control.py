#!/usr/bin/env python3
"""The control of a live mount: who may ask, what it refuses, and drop and warm by it without naming the mount's cache directory again."""
import errno
import fcntl
import struct

from common import *
from file_server import server

need_program()
CASE = "dcp/fsdp4/ckpt"
CKPT = f"{DATA}/{CASE}"
URL = f"http://127.0.0.1:{server.server_port}/{CASE}"
SIZE, STATE, DROP, FAR, CACHED = 5192, 1, 2, 1, 2
NOBODY = 65534

if "without libcurl" in run("info", URL).stderr:
    skip_all("this build has no libcurl")
if no_fuse():
    skip_all(no_fuse())


def number(size=SIZE, nr=0xF5):
    return 3 << 30 | size << 16 | ord("S") << 8 | nr


def ask(path, op, version=1, cmd=None, size=SIZE):
    """The answer's fields, or the errno."""
    buf = bytearray(size)
    struct.pack_into("II", buf, 0, version, op)
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, number() if cmd is None else cmd, buf, True)
    except OSError as e:
        return e.errno
    finally:
        os.close(fd)
    names = ("version", "op", "r", "flags", "limit", "kept", "free", "fetched", "fetched_kept", "objects", "bytes")
    a = dict(zip(names, struct.unpack_from("<IIiI7Q", buf)))
    text = bytes(buf[72:])
    return a | {"dir": text[:4096].split(b"\0")[0].decode(), "why": text[4096:].split(b"\0")[0].decode()}


def by_nobody(path):
    """What an other user gets."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            a = ask(path, DROP)
            os.write(w, str(a if isinstance(a, int) else 0).encode())
        finally:
            os._exit(0)
    os.close(w)
    os.waitpid(pid, 0)
    got = os.read(r, 100).decode()
    os.close(r)
    return int(got or -1)


def kept(d):
    return sum(os.stat(f"{d}/{f}").st_blocks * 512 for f in os.listdir(d) if f.endswith(".data"))


def asked(work):
    d = f"{work}/asked"
    with Mount(URL, f"cache_dir={d}", "cache_size=1GB", *(["allow_other", f"uid={NOBODY}"] if os.geteuid() == 0 else [])) as m:
        a = ask(m, STATE)
        check("who mounted it may ask", isinstance(a, dict) and a["r"] == 0 and a["flags"] == FAR | CACHED, a)
        check("where, and how much", a["dir"] == d and a["limit"] == 10**9 and a["why"] == "" and a["fetched"] > 0, a)
        check("another version is told so", (a := ask(m, STATE, version=2))["r"] == -errno.EPROTO and "version 2" in a["why"] and a["version"] == 1, a)
        for op in (0, 3, 2**32 - 1):
            check(f"question {op} is none", (a := ask(m, op))["r"] == -errno.EINVAL, a)
        check("another size is another question", ask(m, STATE, cmd=number(SIZE - 8), size=SIZE - 8) == errno.ENOTTY)
        check("so is another number", ask(m, STATE, cmd=number(nr=0xF6)) == errno.ENOTTY)
        check("and one that sends nothing", ask(m, STATE, cmd=2 << 30 | SIZE << 16 | ord("S") << 8 | 0xF5) == errno.ENOTTY)
        check("only the root is asked", ask(f"{m}/npy", STATE) == errno.ENOTTY and ask(f"{m}/README", STATE) == errno.ENOTTY)
        check("no question harmed anything", kept(d) > 0)
        if os.geteuid() == 0:
            check("another user may not, -o uid= or not", by_nobody(m) == errno.EPERM and kept(d) > 0, by_nobody(m))
        else:
            skip("another user", "needs root")


def dropped(work):
    d = f"{work}/dropped"
    want = run("cat", CKPT, "model.safetensors", text=False).stdout
    other = f"http://127.0.0.1:{server.server_port}/dcp/mesh2x2/ckpt"
    run("warm", other, "--cache-dir", d)
    others = kept(d)
    with Mount(URL, f"cache_dir={d}") as m:
        with open(f"{m}/model.safetensors", "rb") as f:
            f.read()
            full = kept(d)
            r = run("drop", m)
            check("drop MOUNT knows the mount's directory and says it", r.returncode == 0 and d in r.stdout and "dropped 0" not in r.stdout, (r.stdout, r.stderr))
            check("what is of the mount went, the rest stayed", kept(d) == others < full, (kept(d), others, full))
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            f.seek(0)
            check("the mount reads on", f.read() == want)
        check("and keeps anew, at once", kept(d) > others, (kept(d), others))
        r = run("drop", f"{m}/npy")
        check("a part of it is refused", r.returncode == 1 and "dropped whole" in r.stderr, r.stderr)
        j = jrun("drop", m)
        check("--json says where from", j["dropped"][0]["cache_dir"] == d and j["dropped"][0]["bytes"] == j["bytes"] > 0, j)
    with Mount(URL) as m:  # cache_size=0
        r = run("drop", m)
        check("of a mount that keeps nothing", r.returncode == 1 and "keeps nothing" in r.stderr, r.stderr)
        r = run("warm", m)
        check("warm says so before it fetches", r.returncode == 1 and "keeps nothing" in r.stderr, r.stderr)
    with Mount(CKPT) as m:
        r = run("drop", m)
        check("of a local one", r.returncode == 1 and "of local files nothing is kept" in r.stderr, r.stderr)
        check("which can be warmed", run("warm", m).returncode == 0)


def warmed(work):
    d = f"{work}/warmed"
    with Mount(URL, f"cache_dir={d}") as m:
        with open(f"{m}/model.safetensors", "rb") as f:
            f.read()
        run("drop", m)
        low = kept(d)
        r = run("warm", f"{m}/model.safetensors")
        check("warm fetches what only the kernel has", r.returncode == 0 and kept(d) > low, (r.stdout, r.stderr))
    d = f"{work}/small"
    with Mount(URL, f"cache_dir={d}", "cache_size=200KB") as m:
        r = run("warm", m)
        check("what found no room is said", r.returncode == 1 and "are not kept" in r.stderr, (r.stdout, r.stderr))


def hangs(work):
    d = f"{work}/hangs"
    with Mount(URL, f"cache_dir={d}") as m:
        pid = daemon_of(m)
        os.kill(pid, signal.SIGKILL)
        r = run("drop", m)
        check("a dead daemon's is said, and what to do", r.returncode == 1 and "--cache-dir says" in r.stderr, r.stderr)


def all_of_it(work):
    d = f"{work}/all"
    run("warm", URL, "--cache-dir", d)
    before = kept(d)
    r = run("drop", "--cache-dir", d)
    check("drop alone drops nothing, says where and how much", r.returncode == 2 and d in r.stderr and "--all" in r.stderr and re.search(r"[\d.]+ [KM]B", r.stderr) and
          kept(d) == before > 0, r.stderr)
    r = run("drop", "--all", URL, "--cache-dir", d)
    check("--all and a SOURCE are refused", r.returncode == 2 and kept(d) == before, r.stderr)
    r = run("drop", "--all", "--cache-dir", d)
    check("--all does it", r.returncode == 0 and d in r.stdout and kept(d) == 0, r.stdout)


with tempfile.TemporaryDirectory() as work:
    for p in (asked, dropped, warmed, hangs, all_of_it):
        p(work)
finish()
