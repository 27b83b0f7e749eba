#!/usr/bin/env python3
"""--memory bounds what a mount holds, however many read, and it is given back: compressed items, values as JSON, values that are too large."""
import concurrent.futures
import errno
import mmap
import threading

from common import *

need_fuse()
if lacks_zstd():
    skip_all("built without libzstd")
try:
    import zstandard
except ImportError:
    skip_all(f"no zstandard for {sys.executable}")
from handmade import HandMade, item_bytes

MIB = 1 << 20
MEMORY = 64 * MIB
SLACK = 32 * MIB


def anon(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("RssAnon:"))


class Watch:
    """with Watch(pid) as w: the most anonymous memory that was resident meanwhile."""

    def __init__(self, pid):
        self.pid, self.most, self.stop = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.stop.wait(0.002):
            self.most = max(self.most, anon(self.pid))

    def __enter__(self):
        self.before = anon(self.pid)
        self.thread.start()
        return self

    def __exit__(self, *a):
        self.stop.set()
        self.thread.join()

    def falls_to(self, limit):
        """Does it, before the test's patience ends? What it was at last."""
        for _ in range(2000):
            now = anon(self.pid)
            if now <= limit:
                break
            time.sleep(0.01)
        return now


def direct(path, step, at):
    """Hashes of @step bytes at each of the offsets @at, past the page cache; the length of the file."""
    fd, got = os.open(path, os.O_RDONLY | os.O_DIRECT), []
    buf = mmap.mmap(-1, step)
    try:
        for off in at:
            n = os.preadv(fd, [buf], off)
            got.append(hashlib.sha256(buf[:n]).digest())
        return got, os.fstat(fd).st_size
    finally:
        os.close(fd)
        buf.close()


def pieces(data, step, at):
    return [hashlib.sha256(data[off:off + step]).digest() for off in at]


def read_all(paths, step, at):
    with concurrent.futures.ThreadPoolExecutor(len(paths)) as pool:
        return list(pool.map(lambda p: direct(p, step, at), paths))


def check_bounds(name, w, m, item, waits=True):
    c = counters(m)["memory"]
    check(f"{name}: resident memory stays within the budget", w.most - w.before <= MEMORY + SLACK + item,
          f"{w.most / MIB:.0f} MiB, {w.before / MIB:.0f} before, an item of {item / MIB:.0f}; {c}")
    after = w.falls_to(w.before + MEMORY // 2 + SLACK // 2)
    check(f"{name}: it is given back", after <= w.before + MEMORY // 2 + SLACK // 2, f"{after / MIB:.0f} MiB, {w.before / MIB:.0f} before; {c}")
    check(f"{name}: so says the account", c["limit"] == MEMORY and c["most"] <= MEMORY + item + SLACK and c["held"] <= MEMORY, c)
    if waits:
        check(f"{name}: readers had to wait", c["waits"] > 0, c)
    print(f"{name}: RssAnon {w.before / MIB:.0f} MiB before, {w.most / MIB:.0f} at most, {after / MIB:.0f} after; account {c}")


def compressed(d, keys, t):
    """A checkpoint where each key is @t, and its item compressed."""
    h = HandMade(d)
    stored = zstandard.ZstdCompressor().compress(item_bytes(t))
    for k in keys:
        h.tensor(k, t.shape, t.dtype, [((0, 0), t.shape, f"__{k}.distcp", stored)])
    for s in h.storage.values():
        s.transform_descriptors = ["stream.zstd/1"]
    h.commit()


def test_compressed_items():
    """40 readers of 40 items of 30 MiB: two of them fit."""
    with tempfile.TemporaryDirectory() as d:
        rows, cols = 30 * 256, 1024
        t = torch.arange(rows * cols // 64, dtype=torch.int32).repeat(64).view(rows, cols)
        keys = [f"t{i}" for i in range(40)]
        compressed(f"{d}/c", keys, t)
        data, at = raw(t), [0, 9 * MIB, 26 * MIB]
        want = (pieces(data, 4 * MIB, at), len(data))
        mount = Mount(f"{d}/c", "memory=64M")
        with mount as m:
            paths = [f"{m}/state/{k}/tensor.raw" for k in keys]
            with Watch(mount.pid()) as w:
                got = read_all(paths, 4 * MIB, at)
            check("40 readers: the bytes", all(g == want for g in got), sum(g == want for g in got))
            check_bounds("40 readers", w, m, len(data))


def test_values():
    """12 readers of 12 texts of 20 MiB, opened all at once, and a .pt of one beside."""
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(f"{d}/c")
        text = "".join(chr(97 + i % 26) for i in range(MIB // 4)) * 80
        for i in range(12):
            h.object(f"v{i}", text[:-1] + chr(65 + i), name=f"__{i}.distcp")
        h.commit()
        at = range(0, 20 * MIB, 4 * MIB)
        mount = Mount(f"{d}/c", "memory=64M")
        with mount as m:
            paths = [f"{m}/state/v{i}/value.json" for i in range(12)]
            with Watch(mount.pid()) as w:
                got = read_all(paths, 4 * MIB, at)
            for i, g in enumerate(got):
                data = json.dumps(text[:-1] + chr(65 + i)).encode() + b"\n"
                check(f"value {i}: the bytes", g == (pieces(data, 4 * MIB, at), len(data)), g[1])
            check_bounds("12 values", w, m, 20 * MIB)
            with Watch(mount.pid()) as w:
                v = torch.load(f"{m}/state/v3/value.pt", weights_only=True)
            check("value.pt", v == text[:-1] + "D")
            check_bounds("a value.pt", w, m, 20 * MIB, waits=False)
            fds = [os.open(p, os.O_RDONLY) for p in paths]  # held open by one who reads them in turn
            try:
                ends = [os.pread(fd, 3, 20 * MIB) for fd in fds for _ in range(2)]
            finally:
                for fd in fds:
                    os.close(fd)
            want = [(chr(65 + i) + '"\n').encode() for i in range(12) for _ in range(2)]
            check("12 open values", ends == want, ends)


def test_too_large():
    """A value that takes more than there is: an error with both numbers, in its own files alone."""
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(f"{d}/c")
        h.tensor("model.w", (4,), torch.float32, [((0,), (4,), "__0_0.distcp", item_bytes(torch.ones(4)))])
        big = [float(i) for i in range(1 << 20)]  # 9 MiB of pickle, several times that as values
        h.object("model.big", big)
        h.object("model.small", {"a": 1})
        h.commit()
        log = f"{d}/log"
        with Mount(f"{d}/c", "memory=32M", f"log-file={log}") as m:
            for name in ("json", "pt"):
                try:
                    got = f"{len(open(f'{m}/state/model/big/value.{name}', 'rb').read())} bytes"
                except OSError as e:
                    got = e.errno
                check(f"value.{name} of a value that is too large", got == errno.EIO, got)
            with open(log) as f:
                lines = f.read()
            check("the log names it and both numbers", "model.big" in lines and "--memory is 33554432" in lines and " bytes of memory or more" in lines, lines[-600:])
            check("the other value", json.load(open(f"{m}/state/model/small/value.json")) == {"a": 1})
            v = torch.load(f"{m}/checkpoint.pt", weights_only=True)
            check("checkpoint.pt is there without it", set(v["model"]) == {"w", "small"}, v)
        r = run("get", f"{d}/c", "model.big", "-O", "-", "--memory", "32M")
        check("get says so too", r.returncode == 1 and "--memory is 33554432" in r.stderr, (r.returncode, r.stderr[-300:]))
        r = run("get", f"{d}/c", "model.big", "-O", "-")
        check("with more memory it is there", r.returncode == 0 and json.loads(r.stdout) == big, r.stderr[-300:])


def error_of(path):
    try:
        with open(path, "rb") as f:
            return f"{len(f.read())} bytes"
    except OSError as e:
        return e.errno


def test_tiny():
    """1000 bytes: what need not be taken in whole is read all the same, the rest is an error that says why."""
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(f"{d}/dense")
        t = torch.arange(1 << 20, dtype=torch.int32).view(1024, 1024)
        h.tensor("w", t.shape, t.dtype, [((r, 0), (256, 1024), f"__{r}.distcp", item_bytes(t[r:r + 256].clone())) for r in range(0, 1024, 256)])
        h.object("o", {"a": 1})
        h.commit()
        compressed(f"{d}/zstd", ["z"], t)
        log = f"{d}/log"
        with Mount(f"{d}/dense", "memory=1000", f"log-file={log}") as m:
            data, at = raw(t), range(0, 4 * MIB, MIB)
            got = read_all([f"{m}/state/w/tensor.raw"] * 8, MIB, at)
            check("memory=1000: 8 readers of a dense tensor", got == [(pieces(data, MIB, at), len(data))] * 8, [g[1] for g in got])
            v = torch.load(f"{m}/checkpoint.pt", weights_only=True)
            check("memory=1000: checkpoint.pt", torch.equal(v["w"], t) and set(v) == {"w"}, list(v))
            got = error_of(f"{m}/state/o/value.json")
            check("memory=1000: a value", got == errno.EIO, got)
            check("memory=1000: the account", counters(m)["memory"]["limit"] == 1000, counters(m)["memory"])
        with Mount(f"{d}/zstd", "memory=1000", f"log-file={log}") as m:
            got = error_of(f"{m}/state/z/tensor.raw")
            check("memory=1000: a compressed item", got == errno.EIO, got)
        with open(log) as f:
            lines = f.read()
        check("memory=1000: the log says why", "--memory is 1000" in lines and "--memory 1000 has no room" in lines, lines[-600:])


READER = """
import mmap, os, sys
fd, buf = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 1 << 20)
print(flush=True)
while True:
    for off in range(0, 28 << 20, 1 << 20):
        os.preadv(fd, [buf], off)
"""


def readers(m, keys):
    """Processes that read for ever; all of them have begun, and some wait for memory."""
    r = [subprocess.Popen([sys.executable, "-c", READER, f"{m}/state/{k}/tensor.raw"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for k in keys]
    for p in r:
        p.stdout.read(1)
    for _ in range(2000):
        if counters(m)["memory"]["waiting"] > 0:
            return r
        time.sleep(0.005)
    raise RuntimeError("no reader waits")


def gone(r, kill):
    for p in r:
        if kill:
            p.kill()
    return [p.wait(60) for p in r]


def test_killed_and_unmounted():
    """Who is killed while it waits is in nobody's way; the mount ends while somebody waits."""
    with tempfile.TemporaryDirectory() as d:
        t = torch.arange(30 * 4096, dtype=torch.int32).repeat(64).view(30 * 256, 1024)
        keys = [f"t{i}" for i in range(12)]
        compressed(f"{d}/c", keys, t)
        mount = Mount(f"{d}/c", "memory=64M")
        m = mount.__enter__()
        r = []
        try:
            for _ in range(3):
                gone(readers(m, keys), True)
            got = direct(f"{m}/state/t0/tensor.raw", MIB, [29 * MIB])
            check("killed readers: the next one", got[0] == pieces(raw(t), MIB, [29 * MIB]))
            for _ in range(2000):
                c = counters(m)["memory"]
                if not c["waiting"] and c["held"] <= MEMORY // 2 + MIB:
                    break
                time.sleep(0.01)
            check("killed readers: nobody waits, and what they held is given back", not c["waiting"] and c["held"] <= MEMORY // 2 + MIB, c)
            pid, r = mount.pid(), readers(m, keys)
        finally:
            subprocess.run(["fusermount3", "-uz", m], capture_output=True)
            os.rmdir(m)
        os.kill(pid, 15)
        for _ in range(3000):
            if not os.path.exists(f"/proc/{pid}"):
                break
            time.sleep(0.01)
        check("unmounted while readers wait: it ends", not os.path.exists(f"/proc/{pid}"))
        gone(r, os.path.exists(f"/proc/{pid}"))


for test in (test_compressed_items, test_values, test_too_large, test_tiny, test_killed_and_unmounted):
    with attempt(test.__name__):
        test()
finish()
