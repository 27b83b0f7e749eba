#!/usr/bin/env python3
"""The promises of the design that can be seen from outside: lazy, right or an error, inert, complete only, answers, clean ends."""
import re
import concurrent.futures
import errno
import shutil
import stat

from common import *

need_fuse()
import fixture
from handmade import HandMade, item_bytes
from torch.distributed.checkpoint.filesystem import _StorageInfo as StorageInfo


def rows(path, name="model.w", shape=(4096, 256), cuts=4, more=0, dtype=torch.float32):
    """A checkpoint of one big row-sharded tensor (and `more` little ones) by hand; returns the big one's bytes."""
    h = HandMade(path)
    t = fixture.values(*shape, dtype=dtype, seed=3)
    at = [i * shape[0] // cuts for i in range(cuts + 1)]
    h.tensor(name, shape, t.dtype, [((a, 0), (b - a, shape[1]), f"__{i}_0.distcp", item_bytes(t[a:b].clone())) for i, (a, b) in enumerate(zip(at, at[1:]))],
             path=name.split("."))
    small = item_bytes(torch.ones(4))
    for i in range(more):
        h.tensor(f"model.small.{i}", (4,), torch.float32, [((0,), (4,), f"__{i % cuts}_0.distcp", small)])
    h.object("step", 5)
    h.commit()
    return raw(t)


def pread_all(path, chunk=1 << 20):
    with open(path, "rb", buffering=0) as f:
        return b"".join(iter(lambda: f.read(chunk), b""))


def fetched(c, kinds):
    """Sum of fetched bytes of some kinds, whatever the nesting of counters.json is."""
    b = c["fetched_bytes"]
    return sum(b.get(k, 0) for k in kinds) if isinstance(b, dict) else b


def test_lazy():
    with tempfile.TemporaryDirectory() as d:
        data = rows(f"{d}/c", more=200)
        with Mount(f"{d}/c") as m:
            c = counters(m)
            check("counters.json has its fields", {"read_requests", "read_bytes", "fetched_requests", "fetched_bytes"} <= set(c), list(c))
            n = 0
            for base, dirs, files in os.walk(m):
                if ".shardfuse" in base:
                    continue
                for f in files:
                    n += 1
                    if not f.startswith("value."):
                        os.stat(os.path.join(base, f))
            c = counters(m)
            check("ls -lR reads no tensor", fetched(c, ["tensor"]) == 0, (n, c))
            p = f"{m}/state/model/w/tensor.raw"
            before = counters(m)
            with open(p, "rb", buffering=0) as f:
                f.seek(1 << 20)
                part = f.read(4096)
            after = counters(m)
            check("a small read is right", part == data[1 << 20:(1 << 20) + 4096])
            got = fetched(after, ["tensor", "header"]) - fetched(before, ["tensor", "header"])
            check("a small read fetches little, never the file", got <= (1 << 20) + 65536, got)
            subprocess.run(["dd", f"if={p}", "of=/dev/null", "bs=1M"], capture_output=True)
            last = counters(m)
            got = fetched(last, ["tensor", "header"]) - fetched(before, ["tensor", "header"])
            check("a whole read fetches at most 1.05 of its bytes", got <= 1.05 * len(data), f"{got} for {len(data)}")
            whole = counters(m)
            check("read_bytes counts what was asked", len(data) * 0.95 <= (whole["read_bytes"] if not isinstance(whole["read_bytes"], dict) else sum(whole["read_bytes"].values())), whole["read_bytes"])
            text = open(f"{m}/.shardfuse/metrics").read()
            check("metrics is Prometheus text", any(line and not line.startswith("#") and len(line.split()) == 2 for line in text.splitlines()), text[:200])
            check(".shardfuse files have size 0", os.stat(f"{m}/.shardfuse/counters.json").st_size == 0)


def test_column_shards_are_not_amplified():
    with tempfile.TemporaryDirectory() as d:
        h, t = HandMade(f"{d}/c"), fixture.values(2048, 1024, seed=4)
        h.tensor("model.w", t.shape, t.dtype, [((0, i * 16), (2048, 16), f"__{i}_0.distcp", item_bytes(t[:, i * 16:i * 16 + 16].clone())) for i in range(64)])
        h.commit()
        with Mount(f"{d}/c") as m:
            data = pread_all(f"{m}/state/model/w/tensor.raw", 128 << 10)
            check("64 column shards read back", data == raw(t))
            c = counters(m)
            check("64 column shards: at most 1.05 of the bytes", fetched(c, ["tensor", "header"]) <= 1.05 * len(data), (c, len(data)))


def test_stat_of_many():
    """stat of all files of a checkpoint of many tensors: bounded memory, no tensor item read."""
    with tempfile.TemporaryDirectory() as d:
        rows(f"{d}/c", more=20000)
        with Mount(f"{d}/c") as m:
            pid = daemon_of(m)
            rss = lambda: next(int(x.split()[1]) for x in open(f"/proc/{pid}/status") if x.startswith("RssAnon")) << 10
            before = rss() if pid else 0
            n = 0
            for base in ("npy", "pt", "safetensors"):
                for e in os.scandir(f"{m}/{base}"):
                    n += e.stat().st_size > 0
            for f in ("checkpoint.pt", "checkpoint.safetensors", "model.pt", "model.safetensors", "hf/model.safetensors", "tensors.json"):
                n += os.stat(f"{m}/{f}").st_size > 0
            check("every file has a size", n == 3 * 20001 + 6 or n == 3 * 20001 + 7, n)
            check("stat of every file reads no tensor item", fetched(counters(m), ["tensor"]) == 0, counters(m))
            if pid:
                check("stat of every file allocates under 20 MB (100 MB at 10^5 tensors)", rss() - before < 20_000_000, (before, rss()))


def test_changed_under_the_mount():
    for how in ("replaced", "replaced before the first read", "rewritten", "truncated", "grown", "removed"):
        with attempt(f"a shard {how}"), tempfile.TemporaryDirectory() as d:
            data = rows(f"{d}/c", cuts=2)
            p = f"{d}/c/__1_0.distcp"
            with Mount(f"{d}/c") as m:
                v = f"{m}/state/model/w/tensor.raw"
                half = len(data) // 2
                with open(v, "rb", buffering=0) as f:
                    f.seek(8192 if "first" in how else half + 8192)
                    check(f"{how}: right before", f.read(100) == data[8192:8292]) if "first" in how else check(f"{how}: right before", f.read(100) == data[half + 8192:half + 8292])
                time.sleep(0.02)
                body = bytearray(open(p, "rb").read())
                if how.startswith("replaced"):
                    body[-300000:-1000] = b"\xaa" * 299000
                    with open(f"{p}.new", "wb") as f:
                        f.write(body)
                    os.rename(f"{p}.new", p)
                elif how == "rewritten":
                    with open(p, "r+b") as f:
                        f.seek(len(body) // 2)
                        f.write(b"\xaa" * 100000)
                elif how == "truncated":
                    os.truncate(p, len(body) // 2)
                elif how == "grown":
                    with open(p, "ab") as f:
                        f.write(b"more")
                else:
                    os.unlink(p)
                with open(f"{m}/.shardfuse/counters.json") as f:
                    f.read()
                fd = os.open(v, os.O_RDONLY)
                wrong, err = 0, set()
                for off in range(half + (256 << 10), len(data), 64 << 10):
                    try:
                        b = os.pread(fd, 65536, off)
                        wrong += b != data[off:off + 65536]
                    except OSError as e:
                        err.add(e.errno)
                os.close(fd)
                check(f"{how}: never bytes of the other version", wrong == 0, f"{wrong} reads gave other bytes")
                held = how in ("replaced", "removed")  # the old file, still open in the daemon, may go on being read
                check(f"{how}: reads fail with ESTALE", held and not err or err == {errno.ESTALE}, [errno.errorcode[e] for e in err])
                with open(v, "rb", buffering=0) as f:
                    check(f"{how}: the other shard still reads", f.read(1000) == data[:1000])


def test_inert():
    with tempfile.TemporaryDirectory() as d:
        marker = f"{d}/PWNED"

        class Evil:
            def __reduce__(self):
                return (os.system, (f"touch {marker}",))

        h = HandMade(f"{d}/c")
        h.object("evil", Evil())
        h.object("fine", {"a": 1}, path=("fine",))
        h.tensor("w", (2,), torch.float32, [((0,), (2,), "__0_0.distcp", item_bytes(torch.ones(2)))])
        h.commit()
        with Mount(f"{d}/c") as m:
            j = strict_json(open(f"{m}/state/evil/value.json").read())
            check("an unknown callable is shown by name", "system" in json.dumps(j), j)
            for b, _, fs in os.walk(m):
                for f in fs:
                    if "control" not in f:
                        with open(os.path.join(b, f), "rb") as x:
                            x.read(1 << 16)
            check("info.json", strict_json(open(f"{m}/info.json").read())["schema"] == 1)
        for verb in (["info", f"{d}/c"], ["verify", "--deep", f"{d}/c"], ["get", f"{d}/c", "evil", "--format", "json"], ["export", f"{d}/c", f"{d}/x.pt"]):
            run(*verb)
        check("nothing in a pickle ran", not os.path.exists(marker))


def test_complete_only():
    ckpt, _ = case("dcp/fsdp4")
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(ckpt, f"{d}/c")
        os.rename(f"{d}/c/.metadata", f"{d}/c/.metadata.tmp")
        r = run("info", f"{d}/c")
        check("no .metadata: refused as not committed", r.returncode == 1 and ("commit" in r.stderr or "complete" in r.stderr) and ".metadata" in r.stderr, r.stderr)
        try:
            with Mount(f"{d}/c"):
                check("a mount of it is refused", False)
        except RuntimeError as e:
            check("a mount of it is refused", "exit 1" in str(e), e)
    ranklocal, _ = case("dcp/ranklocal")
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(ranklocal, f"{d}/c")
        os.unlink(f"{d}/c/__1.metadata")
        r = run("info", "--json", f"{d}/c")
        ok = r.returncode == 1 or strict_json(r.stdout)["warnings"] != []
        check("a rank's metadata is missing: refused or a warning", ok, r.stdout[-200:])


def test_ends():
    ckpt, _ = case("dcp/fsdp4")
    import signal
    with attempt("SIGTERM"), tempfile.TemporaryDirectory() as d:
        with Mount(ckpt, dir=d) as m:
            pid = daemon_of(m)
            check("the daemon can be found by its command line", pid is not None)
            if pid:
                os.kill(pid, signal.SIGTERM)
                for _ in range(50):
                    if not mounted(m):
                        break
                    time.sleep(0.1)
                check("SIGTERM unmounts", not mounted(m))
                time.sleep(0.2)
                alive = os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().split(") ")[1][0] != "Z"
                check("and the daemon is gone", not alive)
    with attempt("SIGTERM with a file open"), tempfile.TemporaryDirectory() as d:
        with Mount(ckpt, dir=d) as m:
            pid, f = daemon_of(m), open(f"{m}/README")
            os.kill(pid, signal.SIGTERM)
            for _ in range(50):
                if not mounted(m):
                    break
                time.sleep(0.1)
            check("SIGTERM unmounts with a file open", not mounted(m))
            try:
                f.close()
            except OSError:
                pass  # its server is gone
    with attempt("a dead daemon"), tempfile.TemporaryDirectory() as d:
        Mount(ckpt, dir=d).__enter__()
        pid = daemon_of(d)
        check("its daemon is found", pid is not None)
        os.kill(pid, signal.SIGKILL)
        time.sleep(0.3)
        try:
            os.listdir(d)
            check("a killed daemon's mountpoint is dead", False)
        except OSError as e:
            check("a killed daemon's mountpoint is dead", e.errno in (errno.ENOTCONN, errno.ECONNABORTED), e)
        try:
            with Mount(ckpt, dir=d) as m:
                check("the next mount cleans it", os.path.exists(f"{m}/README"))
        except RuntimeError as e:
            check("the next mount cleans it", False, e)
        check("and unmounts whole", not mounted(d))
        while mounted(d):
            subprocess.run(["fusermount3", "-uz", d], capture_output=True)
    for user in [None, 65534] if os.geteuid() == 0 else [None]:
        with attempt(f"auto_unmount, user {user}"), tempfile.TemporaryDirectory() as d:
            if user and os.stat("/dev/fuse").st_mode & 6 != 6:
                skip("auto_unmount of an ordinary user", "/dev/fuse is not theirs to open")
                continue
            shutil.copytree(ckpt, f"{d}/ckpt")
            shutil.copy(BIN, f"{d}/{os.path.basename(BIN)}")
            os.mkdir(f"{d}/m")
            if user:
                os.chmod(d, 0o755)
                os.chown(f"{d}/m", user, user)
            r = subprocess.run([f"{d}/{os.path.basename(BIN)}", f"{d}/ckpt", f"{d}/m", "-o", "auto_unmount"], capture_output=True, text=True, user=user, group=user,
                               extra_groups=[] if user else None)
            check("mounted", r.returncode == 0 and mounted(f"{d}/m"), r.stderr)
            pid = daemon_of(f"{d}/m")
            check("and its daemon is found", pid is not None)
            os.kill(pid, signal.SIGKILL)
            for _ in range(50):
                if not mounted(f"{d}/m"):
                    break
                time.sleep(0.1)
            check("a killed daemon's mountpoint is cleaned", not mounted(f"{d}/m"))
            while mounted(f"{d}/m"):
                subprocess.run(["fusermount3", "-uz", f"{d}/m"], capture_output=True)
    with attempt("umount verb"), tempfile.TemporaryDirectory() as d:
        Mount(os.path.relpath(ckpt), dir=d).__enter__()
        r = run("status")
        check("status shows the mount", r.returncode == 0 and d in r.stdout, r.stdout + r.stderr)
        check("and its source, by a name that is good from everywhere", re.search(rf"^{re.escape(d)} +/", r.stdout, re.M), r.stdout)
        r = run("umount", d)
        check("umount", r.returncode == 0 and not mounted(d), r.stderr)
        unmount(d)
    with attempt("a mountpoint that is not there"):
        r = run(ckpt, "/nonexistent/mountpoint")
        check("a mountpoint that is not there: exit 1 and its name", r.returncode == 1 and "/nonexistent/mountpoint" in r.stderr, (r.returncode, r.stderr))
    with attempt("an unknown option"), tempfile.TemporaryDirectory() as d:
        r = run(ckpt, d, "-o", "no_such_option")
        check("an unknown -o is usage", r.returncode == 2 and "no_such_option" in r.stderr, (r.returncode, r.stderr))
        check("and nothing is mounted", not mounted(d))
        link = f"{d}/mount.shardfuse"
        os.symlink(os.path.abspath(BIN), link)
        os.mkdir(f"{d}/m")
        r = subprocess.run([link, ckpt, f"{d}/m", "-o", "no_such_option"], capture_output=True, text=True, timeout=30)
        check("as mount.shardfuse it is 1", r.returncode == 1, (r.returncode, r.stderr))
        r = subprocess.run([link, "/nonexistent", f"{d}/m"], capture_output=True, text=True, timeout=30)
        check("as mount.shardfuse a failure is 32", r.returncode == 32, (r.returncode, r.stderr))
        r = subprocess.run([link, ckpt, f"{d}/m", "-n", "-o", "ro,noatime,nodev,nosuid,x-systemd.automount,_netdev,nofail,comment=x"], capture_output=True, text=True, timeout=30)
        check("fstab's words are accepted", r.returncode == 0 and mounted(f"{d}/m"), (r.returncode, r.stderr))
        unmount(f"{d}/m")


def test_places():
    ckpt, exp = case("dcp/fsdp4")
    with attempt("SOURCE = MOUNTPOINT"), tempfile.TemporaryDirectory() as d:
        shutil.copytree(ckpt, f"{d}/c")
        with Mount(f"{d}/c", "nonempty", dir=f"{d}/c") as m:
            k = "model.norm.weight"
            check("SOURCE = MOUNTPOINT", agrees(torch.load(f"{m}/pt/{k}.pt"), exp["tensors"][k]))
    with attempt("a relative SOURCE"), tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/m")
        shutil.copytree(ckpt, f"{d}/c")
        r = run("c", "m", cwd=d)
        check("a relative SOURCE and MOUNTPOINT", r.returncode == 0 and os.path.exists(f"{d}/m/README"), r.stderr)
        if mounted(f"{d}/m"):
            check("and it reads", sha(pread_all(f"{d}/m/state/model/norm/weight/tensor.raw")) == exp["tensors"]["model.norm.weight"]["sha256"])
        unmount(f"{d}/m")
    with attempt("file://"), Mount("file://" + os.path.abspath(ckpt)) as m:
        check("a file:// SOURCE", os.path.exists(f"{m}/README"))
    with attempt("symlinks"), tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/snap")
        for f in os.listdir(ckpt):
            os.symlink(os.path.abspath(f"{ckpt}/{f}"), f"{d}/snap/{f}")
        with Mount(f"{d}/snap") as m:
            check("symlinked stored files are followed", agrees(torch.load(f"{m}/pt/model.norm.weight.pt"), exp["tensors"]["model.norm.weight"]))
    with attempt("nothing held"), tempfile.TemporaryDirectory() as d:
        with Mount(ckpt, dir=d) as m:
            pid = daemon_of(m)
            fds = [os.readlink(f"/proc/{pid}/fd/{f}") for f in os.listdir(f"/proc/{pid}/fd")] if pid else []
            check("the daemon keeps no pipe of its parent's stdout", not [f for f in fds[:3] if "pipe" in f] or all("pipe" not in os.readlink(f"/proc/{pid}/fd/{n}") for n in (1, 2)), fds)
            check("its directory is / or the like", pid is None or os.readlink(f"/proc/{pid}/cwd") != os.getcwd() or os.getcwd() == "/", os.readlink(f"/proc/{pid}/cwd") if pid else "")


def test_same_bytes():
    for name in ("dcp/torchtitan", "dcp/dtypes", "dcp/objects300", "dcp/names"):
        ckpt, _ = case(name)
        with attempt(f"two mounts of {name}"), Mount(ckpt) as a, Mount(ckpt) as b:
            diff, n = [], 0
            for base, _, files in os.walk(a):
                if ".shardfuse" in base:
                    continue
                for f in files:
                    x = os.path.join(base, f)
                    y = b + x[len(a):]
                    n += 1
                    sx, sy = os.stat(x), os.stat(y)
                    if pread_all(x) != pread_all(y) or sx.st_ino != sy.st_ino or sx.st_mtime_ns != sy.st_mtime_ns:
                        diff.append(x[len(a):])
            check(f"two mounts of {name}: the same bytes, inodes, times", not diff and n > 20, diff[:5])
            inos = {}
            for base, dirs, files in os.walk(a):
                for f in files:
                    p = os.path.join(base, f)
                    if ".shardfuse" not in p and not os.path.islink(p):
                        inos.setdefault(os.lstat(p).st_ino, []).append(p)
            links = [v for v in inos.values() if len(v) != os.lstat(v[0]).st_nlink]
            check(f"{name}: as many paths as links", not links, links[:2])
            with Mount(ckpt) as fresh:  # where nobody asked for sizes yet
                other = [e.path[len(fresh):] for base, _, _ in os.walk(fresh) for e in os.scandir(base) if e.inode() != e.stat(follow_symlinks=False).st_ino]
            check(f"{name}: readdir and stat tell one inode", not other, other[:5])
    ckpt, _ = case("dcp/fsdp4")
    with Mount(ckpt) as m:
        t = os.stat(f"{m}/checkpoint.pt").st_mtime
        check("mtime is the commit's", abs(t - os.stat(f"{ckpt}/.metadata").st_mtime) < 2, (t, os.stat(f"{ckpt}/.metadata").st_mtime))
        check("modes are read-only", stat.S_IMODE(os.stat(f"{m}/README").st_mode) & 0o222 == 0 and stat.S_IMODE(os.stat(f"{m}/npy").st_mode) & 0o222 == 0)
        s = os.statvfs(m)
        check("statfs is sane", s.f_bsize > 0 and s.f_namemax >= 255 and s.f_bavail <= s.f_blocks, s)


def test_concurrent():
    with tempfile.TemporaryDirectory() as d:
        data = rows(f"{d}/c", shape=(8192, 256), cuts=4, more=50)
        for opts in ((), ("memory=64M",), ("threads=1",)):
            with attempt(f"concurrent readers {opts}"), Mount(f"{d}/c", *opts) as m:
                import random

                def reader(seed):
                    r, wrong = random.Random(seed), 0
                    with open(f"{m}/state/model/w/tensor.raw" if seed % 3 else f"{m}/npy/model.w.npy", "rb", buffering=0) as f:
                        skip = 0 if seed % 3 else 128
                        for _ in range(60):
                            o, n = r.randrange(len(data)), r.randrange(1, 300000)
                            f.seek(o + skip)
                            got = b""
                            while len(got) < min(n, len(data) - o):
                                part = f.read(min(n, len(data) - o) - len(got))
                                if not part:
                                    break
                                got += part
                            wrong += got != data[o:o + n]
                    return wrong

                with concurrent.futures.ThreadPoolExecutor(16) as ex:
                    wrong = sum(ex.map(reader, range(16)))
                check(f"16 readers at once {opts}", wrong == 0, f"{wrong} wrong reads")
                refs = [ex2 for ex2 in [torch.load(f"{m}/checkpoint.pt", mmap=True)]]
                check(f"torch.load mapped beside {opts}", raw(refs[0]["model"]["w"]) == data)
                refs = None


def test_few_files():
    """Many stored files under a small limit of open files."""
    import resource
    with tempfile.TemporaryDirectory() as d:
        h, want = HandMade(f"{d}/c"), {}
        for i in range(300):
            t = want[f"model.{i}"] = torch.full((3,), float(i))
            h.tensor(f"model.{i}", (3,), t.dtype, [((0,), (3,), f"__{i}_0.distcp", item_bytes(t))])
            h.files.pop(f"__{i}_0.distcp").close()
        h.commit()
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        with attempt("64 open files"), Mount(f"{d}/c", preexec=limit) as m:
            got = tensors_of(torch.load(f"{m}/checkpoint.pt"))
            check("300 stored files under a limit of 64 open ones", all(torch.equal(got[k], t) for k, t in want.items()))
            pid = daemon_of(m)
            if pid:
                check("and it holds fewer than 64", len(os.listdir(f"/proc/{pid}/fd")) < 64)
        # column shards: each read needs all files, and many reads at once more than there may be
        n = 120
        t = fixture.values(2048, n * 16, dtype=torch.float32, seed=5)
        h = HandMade(f"{d}/w")
        h.tensor("model.w", t.shape, t.dtype, [((0, 16 * i), (2048, 16), f"__{i}_0.distcp", item_bytes(t[:, 16 * i:16 * i + 16].clone())) for i in range(n)])
        h.commit()
        data = raw(t)
        with attempt("16 readers and 64 open files"), Mount(f"{d}/w", preexec=limit) as m:
            def read(k):
                with open(f"{m}/npy/model.w.npy", "rb", buffering=0) as f:
                    f.seek(-len(data), 2)
                    return os.pread(f.fileno(), 1 << 20, f.tell() + (k << 20)) == data[k << 20:(k + 1) << 20]
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                good = list(pool.map(read, range(len(data) >> 20)))
            check("reads at once that need more files than there may be wait for each other", all(good), good)


def test_memory():
    with tempfile.TemporaryDirectory() as d:
        data = rows(f"{d}/c", shape=(65536, 1024), cuts=4)  # 256 MB
        with Mount(f"{d}/c", "memory=64M") as m:
            pid = daemon_of(m)
            h = hashlib.sha256()
            with open(f"{m}/state/model/w/tensor.raw", "rb", buffering=0) as f:
                while b := f.read(1 << 20):
                    h.update(b)
            check("256 MB read under --memory 64M", h.hexdigest() == sha(data))
            if pid:
                anon = next(int(x.split()[1]) for x in open(f"/proc/{pid}/status") if x.startswith("RssAnon")) << 10
                check("anonymous memory stays under the budget and a little", anon < (64 << 20) + (48 << 20), anon)


def test_memory_of_decoded_items():
    """Items that are decoded as a whole: what was given back counts too, whatever malloc makes of it."""
    try:
        import zstandard
    except ImportError:
        return skip("memory of zstd items", "no zstandard")
    with tempfile.TemporaryDirectory() as d:
        h, want, pack = HandMade(f"{d}/c"), [], zstandard.ZstdCompressor(level=1).compress
        for i in range(8):
            t = fixture.values(8192, 1024, seed=i)  # 32 MiB in two items
            h.tensor(f"model.z{i}", t.shape, t.dtype, [((k * 4096, 0), (4096, 1024), f"__{k}_0.distcp", pack(item_bytes(t[k * 4096:k * 4096 + 4096].clone()))) for k in range(2)])
            want.append(raw(t))
        for s in h.storage.values():
            s.transform_descriptors = ["stream.zstd/1"]
        h.commit()
        with Mount(f"{d}/c", "memory=64M") as m:
            pid = daemon_of(m)
            anon = lambda: next(int(x.split()[1]) for x in open(f"/proc/{pid}/status") if x.startswith("RssAnon")) << 10

            def reads(i):
                ok, peak = True, 0
                fd = os.open(f"{m}/state/model/z{i}/tensor.raw", os.O_RDONLY)
                for n in range(12):  # far apart: every read decodes an item that was thrown out
                    off = (n * 19 % 32 << 20) + 4096 * i
                    ok &= os.pread(fd, 65536, off) == want[i][off:off + 65536]
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    peak = max(peak, anon()) if pid else 0
                os.close(fd)
                return ok, peak

            with concurrent.futures.ThreadPoolExecutor(8) as ex:
                got = list(ex.map(reads, range(8)))
            check("eight readers of zstd items under --memory 64M", all(ok for ok, _ in got))
            check("their anonymous memory stays under the budget and a little", max(p for _, p in got) < (64 << 20) + (48 << 20), max(p for _, p in got))


def test_memory_of_one_read():
    """Column shards under zstd: one read needs an item of each, and holds as many decoded ones at once as the budget allows."""
    try:
        import zstandard
    except ImportError:
        return skip("memory of zstd column shards", "no zstandard")
    with tempfile.TemporaryDirectory() as d:
        h, n, pack = HandMade(f"{d}/c"), 16, zstandard.ZstdCompressor(level=1).compress
        t = torch.cat([torch.full((65536, 64), float(i)) for i in range(n)], 1)  # 16 items of 16 MiB
        h.tensor("model.w", t.shape, t.dtype, [((0, 64 * i), (65536, 64), f"__{i}_0.distcp", pack(item_bytes(t[:, 64 * i:64 * i + 64].clone()))) for i in range(n)])
        for s in h.storage.values():
            s.transform_descriptors = ["stream.zstd/1"]
        h.commit()
        with Mount(f"{d}/c", "memory=64M") as m:
            pid = daemon_of(m)
            with open(f"{m}/state/model/w/tensor.raw", "rb", buffering=0) as f:
                check("a row of 16 zstd items", os.pread(f.fileno(), 65536, 4096 * 1000) == raw(t[1000:1016]))
            if pid:
                peak = next(int(x.split()[1]) for x in open(f"/proc/{pid}/status") if x.startswith("VmHWM")) << 10
                check("its memory stays under the budget and a little", peak < (64 << 20) + (64 << 20), peak)


def test_few_files_many_readers():
    """Reads at once, each of more stored files than the process may open: none fails for want of descriptors, none waits for long."""
    import resource
    with tempfile.TemporaryDirectory() as d:
        h, t = HandMade(f"{d}/c"), fixture.values(200, 4096, seed=8)
        h.tensor("model.w", t.shape, t.dtype, [((i, 0), (1, 4096), None, None) for i in range(200)])
        for i in range(200):
            b = item_bytes(t[i:i + 1].clone())
            with open(f"{d}/c/__{i}_0.distcp", "wb") as f:
                f.write(b)
            h.storage[h.index("model.w", (i, 0), i)] = StorageInfo(f"__{i}_0.distcp", 0, len(b))
        h.commit()
        data = raw(t)
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        with Mount(f"{d}/c", "timeout=5", preexec=limit) as m:
            def reads(i):
                errors, fd = set(), os.open(f"{m}/state/model/w/tensor.raw", os.O_RDONLY)
                for n in range(20):
                    off = (n * 3 + i) % 12 << 18
                    try:
                        if not data[off:off + (1 << 20)].startswith(os.pread(fd, 1 << 20, off) or b"?"):
                            errors.add("wrong")
                    except OSError as e:
                        errors.add(errno.errorcode[e.errno])
                        break
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)
                return errors
            for n in (1, 16):
                with concurrent.futures.ThreadPoolExecutor(n) as ex:
                    got = set().union(*ex.map(reads, range(n)))
                check(f"{n} readers, 64 stored files a read, under a limit of 64 open ones", not got, got)


def test_view_without_tensors():
    """Empty and object-only checkpoints."""
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(f"{d}/c")
        h.object("step", 5)
        h.commit()
        with Mount(f"{d}/c") as m:
            check("an object alone", torch.load(f"{m}/checkpoint.pt") == {"step": 5})
            p = f"{m}/checkpoint.safetensors"
            check("and an empty safetensors, or none", not os.path.exists(p) or safetensors.torch.load_file(p) == {})
        h = HandMade(f"{d}/e")
        h.commit()
        with attempt("an empty checkpoint"), Mount(f"{d}/e") as m:
            check("an empty checkpoint", torch.load(f"{m}/checkpoint.pt") == {})


ALL = [v for k, v in list(globals().items()) if k.startswith("test_") and callable(v)]
only = os.environ.get("SF_PROMISE", "")
for t in ALL:
    if only in t.__name__:
        with attempt(t.__name__):
            t()
finish()
