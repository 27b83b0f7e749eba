"""Files that export and get write: whole or not there, whatever happens; nothing left behind; nothing made for a claim."""
import ctypes
import itertools
import random
import re
import resource
import shutil
import struct
import zipfile

from common import *
from handmade import HandMade, item_bytes

SEED = int(os.environ.get("SF_TEST_SEED", time.time()))


def expect(name, r, code):
    return check(name, r.returncode == code, (r.returncode, r.stdout[-200:], r.stderr[-400:]))


def walk(top):
    return sorted(os.path.relpath(os.path.join(b, f), top) for b, d, fs in os.walk(top) for f in fs + d)


def big(path, mib=48):
    """A checkpoint that takes a moment to write."""
    n = mib * (1 << 20) // 4 // 3
    torch.distributed.checkpoint.save({"model": {"a": torch.arange(n, dtype=torch.float32), "b": torch.ones(n), "c": torch.full((n,), 3.0)},
                                       "small": {f"s{i}": torch.full((5,), float(i)) for i in range(40)}, "step": 7}, checkpoint_id=path, no_dist=True)
    return path


# ---- signals ----

def stopped():
    """export and get, stopped after a random time by any signal, leave whole files and no others."""
    rnd = random.Random(SEED)
    print(f"SF_TEST_SEED={SEED}")
    sigs = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGQUIT]
    with tempfile.TemporaryDirectory() as d:
        src = big(f"{d}/src")
        jobs = {"pt": ["export", src, "out/x.pt"], "st": ["export", src, "out/x.safetensors", "--optim"], "hf": ["export", src, "out/hf", "--format", "hf", "--max-shard-size", "20MB"],
                "npy": ["export", src, "out/npy", "--format", "npy"], "get": ["get", src, "model", "small", "-O", "out/got"], "get st": ["get", src, "model", "--format", "safetensors", "-O", "out/one"]}
        for (name, args), sig in itertools.product(jobs.items(), sigs):
            cwd = f"{d}/{name}-{sig}"
            os.makedirs(f"{cwd}/out")
            t = time.monotonic()
            whole = run(*args, cwd=cwd)
            took = time.monotonic() - t
            if not check(f"{name}: runs", whole.returncode == 0, whole.stderr):
                break
            want = {f: open(os.path.join(cwd, f), "rb").read() for f in walk(cwd) if os.path.isfile(os.path.join(cwd, f))}
            for turn in range(2):
                shutil.rmtree(f"{cwd}/out")
                os.makedirs(f"{cwd}/out")
                p = subprocess.Popen([BIN, *args], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
                time.sleep(rnd.uniform(0, took))
                p.send_signal(sig)
                p.stderr.read()
                p.wait()
                left = walk(cwd)
                bad = [f for f in left if os.path.basename(f).startswith(".")]
                bad += [f for f in left if os.path.isfile(os.path.join(cwd, f)) and open(os.path.join(cwd, f), "rb").read() != want.get(f)]
                check(f"{name}, signal {sig}: whole files, no others", not bad, bad)
                check(f"{name}, signal {sig}: ended by it, or done", p.returncode in (0, -sig), p.returncode)


def limits():
    """A limit on file sizes, a full disk and a reader that went away are errors with a message."""
    with tempfile.TemporaryDirectory() as d:
        src = big(f"{d}/src", 12)
        os.mkdir(f"{d}/o")
        small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        for args in (["export", src, f"{d}/o/x.pt"], ["get", src, "model.a", "-O", f"{d}/o"]):
            r = run(*args, preexec_fn=small)
            check(f"{args[0]} over ulimit -f: exit 1 with the reason", r.returncode == 1 and "ulimit -f" in r.stderr and "1048576" in r.stderr, (r.returncode, r.stderr))
            check(f"{args[0]} over ulimit -f leaves nothing", walk(f"{d}/o") == [], walk(f"{d}/o"))
        # the reader of the report goes away: the files are what was asked for
        rd, wr = os.pipe()
        os.close(rd)
        p = subprocess.run([BIN, "export", src, f"{d}/o/npy", "--format", "npy"], stdout=wr, stderr=subprocess.PIPE, text=True)
        os.close(wr)
        check("export without a reader: exit 1, says so", p.returncode == 1 and "stdout" in p.stderr, (p.returncode, p.stderr))
        check("and the files are there", len(walk(f"{d}/o/npy")) == 43 and not [f for f in walk(f"{d}/o/npy") if f.startswith(".")], len(walk(f"{d}/o/npy")))
        p = subprocess.Popen([BIN, "get", src, "model.a", "--format", "raw", "-O", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False)
        p.stdout.read(10)
        p.stdout.close()
        text = p.stderr.read()
        check("get to a reader that leaves: exit 1, says so", p.wait() == 1 and b"Broken pipe" in text, (p.returncode, text))


# ---- hf ----

WATCH = 0x100 | 0x200 | 0x80 | 0x40  # IN_CREATE, IN_DELETE, IN_MOVED_TO, IN_MOVED_FROM


class Watch:
    """What happens to names in a directory, in order."""

    def __init__(self, d):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(d), WATCH) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def events(self):
        out = []
        while True:
            try:
                buf = os.read(self.fd, 1 << 20)
            except BlockingIOError:
                os.close(self.fd)
                return out
            while buf:
                _, mask, _, n = struct.unpack_from("iIII", buf)
                out.append((mask, buf[16:16 + n].rstrip(b"\0").decode()))
                buf = buf[16 + n:]


def loaders(names, index):
    """{loader: the weight files it would take, None: an error}, of a directory with @names and index content @index."""
    st = {n for n in names if n.endswith(".safetensors")}
    named = set(index["weight_map"].values()) if "model.safetensors.index.json" in names else None
    single = {"model.safetensors"} if "model.safetensors" in st else named if named is not None and named <= st else None
    every = st & named if named is not None else st
    return {"the single file, else the index": single, "all files the index names": None if named is not None and not named <= st else every or None}


def hf_forms():
    """Exports over exports: at no instant is there a mixture of old and new, afterwards only the new form."""
    with tempfile.TemporaryDirectory() as d:
        t = lambda k: {"model": {f"w{i}": torch.full((64,), float(k)) for i in range(12)}}
        for k in (1, 2):
            torch.distributed.checkpoint.save(t(k), checkpoint_id=f"{d}/c{k}", no_dist=True)
        forms = {"single": [], "two": ["--max-shard-size", "1600"], "four": ["--max-shard-size", "800"]}
        for old, new in itertools.product(forms, forms):
            out = f"{d}/{old}-{new}"
            name = f"hf {new} over {old}"
            expect(f"hf {old}", run("export", f"{d}/c1", out, "--format", "hf", *forms[old]), 0)
            before = sorted(os.listdir(out))
            r = run("export", f"{d}/c2", out, "--format", "hf", *forms[new])
            check(f"{name}: refused without --force", r.returncode == 1 and "--force" in r.stderr and sorted(os.listdir(out)) == before, (r.returncode, r.stderr, os.listdir(out)))
            index = {"old": None, "new": None}
            if old != "single":
                index["old"] = json.load(open(f"{out}/model.safetensors.index.json"))
            w = Watch(out)
            expect(name, run("export", f"{d}/c2", out, "--format", "hf", *forms[new], "--force"), 0)
            if new != "single":
                index["new"] = json.load(open(f"{out}/model.safetensors.index.json"))
            now = {n: "old" for n in before}
            mixed, seen = [], []
            for mask, n in w.events():
                if n.startswith("."):
                    continue
                if mask & (0x200 | 0x40):
                    now.pop(n, None)
                else:
                    now[n] = "new"
                seen.append((mask, n))
                for who, files in loaders(set(now), index.get(now.get("model.safetensors.index.json"))).items():
                    if files and len({now[f] for f in files}) > 1:
                        mixed.append((who, dict(now)))
            check(f"{name}: no instant with a mixture", seen and not mixed, mixed[:1] or "nothing was seen")
            clean = f"{d}/clean-{new}"
            if not os.path.exists(clean):
                run("export", f"{d}/c2", clean, "--format", "hf", *forms[new])
            check(f"{name}: the new form alone", {f: open(f"{out}/{f}", "rb").read() for f in os.listdir(out)} == {f: open(f"{clean}/{f}", "rb").read() for f in os.listdir(clean)},
                  sorted(os.listdir(out)))
        # the index is what makes shards a model: it comes last
        w_dir = f"{d}/fresh"
        os.mkdir(w_dir)
        w = Watch(w_dir)
        run("export", f"{d}/c2", w_dir, "--format", "hf", *forms["four"])
        names = [n for mask, n in w.events() if mask & 0x180 and not n.startswith(".")]
        check("hf: index last", names and names[-1] == "model.safetensors.index.json" and len(names) == 5, names)
        # old shards that are the checkpoint itself stay
        torch.distributed.checkpoint.save(t(1), checkpoint_id=f"{d}/own", no_dist=True)
        os.rename(f"{d}/own/__0_0.distcp", f"{d}/own/model-00001-of-00009.safetensors")
        md = open(f"{d}/own/.metadata", "rb").read()
        md = md.replace(b"X\x0c\x00\x00\x00__0_0.distcp", b"X\x20\x00\x00\x00model-00001-of-00009.safetensors").replace(b"\x8c\x0c__0_0.distcp", b"\x8c\x20model-00001-of-00009.safetensors")
        md = re.sub(rb"\x80[\x04\x05]\x95.{8}", lambda m: m.group(0)[:2], md, count=1, flags=re.S)  # a frame's length is not ours to correct
        open(f"{d}/own/.metadata", "wb").write(md)
        r = run("export", f"{d}/own", f"{d}/own", "--format", "hf", "--force")
        check("hf --force: stale shards that are the source stay", r.returncode == 1 and "of the checkpoint itself" in r.stderr and os.path.exists(f"{d}/own/model-00001-of-00009.safetensors"),
              (r.returncode, r.stderr))


def old_chunks():
    """Chunks over more chunks: none of the older export stays, whatever else is there does."""
    tree = lambda d: {os.path.relpath(os.path.join(b, f), d): open(os.path.join(b, f), "rb").read() for b, _, fs in os.walk(d) for f in fs}
    with tempfile.TemporaryDirectory() as d:
        for name, n in (("large", 12), ("small", 4)):
            torch.distributed.checkpoint.save({"model": {f"w{i}": torch.full((64,), float(n)) for i in range(n)}, **{g: {"t": torch.ones(64), "u": torch.ones(64)} for g in ("a/b", "other")[:n // 4]}},
                                              checkpoint_id=f"{d}/{name}", no_dist=True)
        args = ["--format", "safetensors", "--strategy", "chunks", "--max-shard-size", "600"]
        expect("chunks of the small one", run("export", f"{d}/small", f"{d}/clean", *args), 0)
        expect("chunks of the large one", run("export", f"{d}/large", f"{d}/out", *args), 0)
        was = tree(f"{d}/out")
        mine = {"model/chunk-00005.pt", "model/chunk-7.safetensors", "model/chunk-000006.safetensors", "model/chunk-00005.safetensors.bak", "chunk-00009.safetensors"}
        for f in mine:
            open(f"{d}/out/{f}", "wb").write(b"mine")
        r = run("export", f"{d}/small", f"{d}/out", *args)
        check("chunks: refused without --force, nothing changed", r.returncode == 1 and "--force" in r.stderr and {k: v for k, v in tree(f"{d}/out").items() if k not in mine} == was, r.stderr)
        expect("chunks --force", run("export", f"{d}/small", f"{d}/out", *args, "--force"), 0)
        now, clean = tree(f"{d}/out"), tree(f"{d}/clean")
        check("chunks --force: the new ones alone", {k: v for k, v in now.items() if k.split("/")[0] in ("model", "a%2Fb") and k not in mine} == clean, (sorted(now), sorted(clean)))
        check("chunks --force: what is no chunk of ours stays", all(now.get(f) == b"mine" for f in mine), sorted(now))
        check("chunks --force: directories it does not write stay", {k: v for k, v in now.items() if k.startswith("other/")} == {k: v for k, v in was.items() if k.startswith("other/")} != {}, sorted(now))
        # what is left of an older export alone is as much in the way
        shutil.rmtree(f"{d}/out")
        os.makedirs(f"{d}/out/model")
        open(f"{d}/out/model/chunk-00040.safetensors", "wb").write(b"old")
        r = run("export", f"{d}/small", f"{d}/out", *args)
        check("a chunk behind the new ones: refused without --force", r.returncode == 1 and "chunk-00040" in r.stderr and "--force" in r.stderr and len(tree(f"{d}/out")) == 1, (r.returncode, r.stderr))
        expect("and goes with it", run("export", f"{d}/small", f"{d}/out", *args, "--force"), 0)
        check("and goes with it: the new ones alone", tree(f"{d}/out") == clean, sorted(tree(f"{d}/out")))


# ---- the progress line ----

def screen(data):
    """The lines on a terminal after @data; text that was overwritten or wiped is not there."""
    lines, col = [""], 0
    for m in re.finditer(rb"\x1b\[K|\r|\n|[^\x1b\r\n]+", data):
        t = m.group(0)
        if t == b"\x1b[K":
            lines[-1] = lines[-1][:col]
        elif t == b"\r":
            col = 0
        elif t == b"\n":
            lines.append("")
            col = 0
        else:
            t = t.decode("utf-8", "replace")
            lines[-1] = lines[-1][:col].ljust(col) + t + lines[-1][col + len(t):]
            col += len(t)
    return lines


def on_terminal(args, cwd, both=True, term="xterm"):
    """(exit code, all that came out) of the program with stderr, and stdout, on a terminal."""
    import pty
    master, slave = pty.openpty()
    p = subprocess.Popen([BIN, *args], cwd=cwd, stdin=subprocess.DEVNULL, stdout=slave if both else subprocess.DEVNULL, stderr=slave, env=dict(os.environ, TERM=term), close_fds=True)
    os.close(slave)
    out = b""
    while True:
        try:
            k = os.read(master, 65536)
        except OSError:
            break
        if not k:
            break
        out += k
    os.close(master)
    return p.wait(), out


def progress():
    with tempfile.TemporaryDirectory() as d:
        src = big(f"{d}/src", 200)
        t = {"model": {f"w{i:02}": torch.full((1 << 21,), float(i)) for i in range(24)}}
        torch.distributed.checkpoint.save(t, checkpoint_id=f"{d}/many", no_dist=True)
        drawn = 0
        for args in (["export", "src", "x.pt"], ["export", "many", "npy", "--format", "npy"], ["get", "src", "model", "-O", "got"], ["export", "many", "hf", "--format", "hf", "--max-shard-size", "9MB"]):
            code, out = on_terminal(args, d)
            lines = screen(out)
            name = " ".join(args)
            note = [x for x in lines if x.startswith("shardfuse: no config.json")]
            check(f"{name}: a line a file, then the sum, nothing else", code == 0 and lines[-1] == "" and all(re.fullmatch(r"\S+\t\d+", x) for x in lines[len(note):-2])
                  and re.fullmatch(r"wrote \d+\.\d\d [MG]B in \d+\.\d s \(\d+\.\d\d [MG]B/s\)", lines[-2]), lines)
            shown = re.findall(rb"\r(\[=*>? *\] +\d+ %  [\d.]+ of [\d.]+ [MG]B, [\d.]+ [MG]B/s(?:, ETA [\d:]+)?  [^\x1b]+)\x1b\[K", out)
            check(f"{name}: nothing but such lines is drawn", out.count(b" %  ") == len(shown), out)
            drawn += len(shown)
        check("a line was drawn", drawn > 0)
        for args, term in ((["export", "src", "q.pt", "--quiet"], "xterm"), (["export", "src", "q2.pt"], "dumb")):
            code, out = on_terminal(args, d, both=False, term=term)
            check(f"{' '.join(args)}, TERM={term}: nothing", code == 0 and out == b"", out)
        r = run("export", "src", "p.pt", cwd=d)
        check("no terminal: the report alone", r.stderr == "" and re.fullmatch(r"p.pt\t\d+\n", r.stdout), (r.stdout, r.stderr))
        check("large .pt files have their CRCs", zipfile.ZipFile(f"{d}/x.pt").testzip() is None)
        # an error in the middle: an item that is not what metadata says, found when it is read
        h = HandMade(f"{d}/bad")
        for i in range(12):
            h.tensor(f"model.w{i:02}", (1 << 21,), torch.float32, [((0,), (1 << 21,), "__0_0.distcp", item_bytes(torch.ones(1 << 21, dtype=torch.float64 if i == 11 else torch.float32)))], path=("model", f"w{i:02}"))
        h.commit()
        code, out = on_terminal(["export", "bad", "bad.pt"], d)
        lines = screen(out)
        check("an error finds the line clean", code == 1 and len(lines) == 2 and lines[0].startswith("shardfuse: ") and "float64" in lines[0] and lines[1] == "", lines)


# ---- what is refused before anything is made ----

def nothing():
    with tempfile.TemporaryDirectory() as d:
        torch.distributed.checkpoint.save({"optimizer": {"state": {"w": {"exp_avg": torch.ones(4)}}}}, checkpoint_id=f"{d}/optim", no_dist=True)
        torch.distributed.checkpoint.save({"model": {"w": torch.ones(4)}, "step": 5}, checkpoint_id=f"{d}/c", no_dist=True)
        forms = [["x.safetensors"], ["dir", "--format", "safetensors"], ["dir", "--format", "hf"], ["dir", "--format", "npy"], ["x.pt", "--no-optim"], ["dir", "--format", "pt", "--no-optim"],
                 *([["dir", "--format", f, "--strategy", s] for f in ("pt", "safetensors") for s in ("one_file_per_tensor", "chunks")])]
        for f in forms:
            refused = "hf" in f or "--no-optim" in f
            if not refused:
                os.mkdir(f"{d}/o")
            r = run("export", f"{d}/optim", f"{d}/o/{f[0]}", *f[1:])
            if refused:
                check(f"export {' '.join(f)} of an optimizer alone", r.returncode == 1 and "nothing to export" in r.stderr, (r.returncode, r.stderr))
            else:  # it is all there is, so it is what is meant
                check(f"export {' '.join(f)} of an optimizer alone", r.returncode == 0 and os.path.exists(f"{d}/o/{f[0]}"), (r.returncode, r.stderr))
                shutil.rmtree(f"{d}/o")
        for f in (["x.safetensors"], ["dir", "--format", "npy"], ["dir", "--format", "hf", "--hf-group", "step"]):
            r = run("export", f"{d}/c", f"{d}/o/{f[0]}", *f[1:], "--key", "step")
            check(f"export {' '.join(f)} of a value that is no tensor", r.returncode == 1 and "nothing to export" in r.stderr, (r.returncode, r.stderr))
        check("and nothing is made", not os.path.exists(f"{d}/o"))
        expect("the optimizer when asked for", run("export", f"{d}/optim", f"{d}/o.safetensors", "--optim"), 0)
        check("and it is there", list(safetensors.torch.load_file(f"{d}/o.safetensors").values())[0].tolist() == [1] * 4)
        expect("tensors inside a value are something", run("export", f"{d}/c", f"{d}/v.pt", "--key", "step"), 0)
        check("a value alone in a .pt", torch.load(f"{d}/v.pt") == {"step": 5})
        r = run("export", f"{d}/c", f"{d}/n", "--format", "npy", "--strategy", "chunks")
        check("npy chunks are refused", r.returncode == 2 and "one array" in r.stderr and not os.path.exists(f"{d}/n"), (r.returncode, r.stderr))


def directories():
    with tempfile.TemporaryDirectory() as d:
        torch.distributed.checkpoint.save({"model": {"w": torch.ones(4)}}, checkpoint_id=f"{d}/c", no_dist=True)
        for args in (["export", f"{d}/c", f"{d}/a/b/x.pt"], ["export", f"{d}/c", f"{d}/a/b", "--format", "npy"], ["get", f"{d}/c", "model.w", "-O", f"{d}/a/b"],
                     ["export", f"{d}/c", f"{d}/a/b", "--format", "hf"]):
            r = run(*args)
            check(f"{args[0]} {args[-1]}: two levels are missing", r.returncode == 1 and f"'{d}/a'" in r.stderr and not os.path.exists(f"{d}/a"), (r.returncode, r.stderr))
        for i, args in enumerate((["export", f"{d}/c", f"{d}/1/x.pt"], ["export", f"{d}/c", f"{d}/2", "--format", "safetensors", "--strategy", "chunks"], ["get", f"{d}/c", "model.w", "-O", f"{d}/3"])):
            expect(f"{args[0]} {args[-1]}: one level is made", run(*args), 0)
            check("and it is there", len(walk(f"{d}/{i + 1}")) >= 1)
        expect("a relative target", run("export", f"{d}/c", "x.pt", cwd=d), 0)
        expect("and one level", run("export", f"{d}/c", "new/x.pt", cwd=d), 0)


def claims():
    """Claims of 2^46 to 2^55 bytes, in every form, with room for 64 MiB: refused with the numbers, nothing is made."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (640 << 20, 640 << 20))
    tmp = "/dev/shm" if os.path.isdir("/dev/shm") else None
    forms = [["export", "x.pt"], ["export", "x.safetensors"], *(["export", "dir", "--format", f] for f in ("pt", "safetensors", "hf", "npy")),
             *(["export", "dir", "--format", f, "--strategy", s] for f in ("pt", "safetensors") for s in ("chunks", "one_file_per_tensor")),
             *(["get", out, "--format", f] for out in ("dir", "-") for f in ("npy", "pt", "safetensors", "raw", "json"))]
    with tempfile.TemporaryDirectory(dir=tmp) as d:
        for bits in (46, 49, 52, 55):
            n = 1 << bits - 2
            false, wide, none = HandMade(f"{d}/false{bits}"), HandMade(f"{d}/wide{bits}"), HandMade(f"{d}/none{bits}")
            false.tensor("model.w", (n,), torch.float32, [((0,), (n,), "__0_0.distcp", item_bytes(torch.zeros(1)))], path=("model", "w"))
            wide.tensor("model.w", (n,), torch.float32, [((0,), (n,), "__0_0.distcp", item_bytes(torch.zeros(1).expand(n)))], path=("model", "w"))  # stride 0: it may be so short
            none.tensor("model.w", (n,), torch.float32, [((0,), (n,), "__0_0.distcp", None)], path=("model", "w"))
            for h in (false, wide, none):
                h.tensor("model.b", (2,), torch.float32, [((0,), (2,), "__0_0.distcp", item_bytes(torch.ones(2)))], path=("model", "b"))
                h.commit()
            # the same in a zstd frame: how much it may hold is bounded by its size
            item = item_bytes(torch.zeros(1))
            frame = b"\x28\xb5\x2f\xfd\x60" + (len(item) - 256).to_bytes(2, "little") + (len(item) << 3 | 1).to_bytes(3, "little") + item
            packed = HandMade(f"{d}/packed{bits}")
            packed.tensor("model.w", (n,), torch.float32, [((0,), (n,), "__0_0.distcp", frame)], path=("model", "w"))
            for info in packed.storage.values():
                info.transform_descriptors = ["stream.zstd/1"]
            packed.tensor("model.b", (2,), torch.float32, [((0,), (2,), "__0_0.distcp", item_bytes(torch.ones(2)))], path=("model", "b"))
            packed.commit()
            for f, kind in itertools.product(forms, ("false", "wide", "none", "packed")):
                to_stdout = f[1] == "-"
                if kind == "wide" and to_stdout and "json" not in f or kind == "packed" and lacks_zstd():
                    continue  # a stream of 2^46 right bytes
                out = "-" if to_stdout else f"{d}/out-{f[1]}"
                args = ["export", f"{d}/{kind}{bits}", out, *f[2:]] if f[0] == "export" else ["get", f"{d}/{kind}{bits}", "model.w", "-O", out, *f[2:]]
                r = run(*args, preexec_fn=limit, timeout=60)
                words = "too many values" if "json" in f else {"false": str(1 << bits), "packed": str(1 << bits), "wide": "free", "none": "no stored item"}[kind]
                check(f"{kind} claim of 2^{bits}, {' '.join(f)}", r.returncode == 1 and words in r.stderr and r.stdout == "", (r.returncode, r.stderr, r.stdout[:40]))
                if not check(f"{kind} claim of 2^{bits}, {' '.join(f)}: nothing is made", not [x for x in os.listdir(d) if x.startswith(("out", "."))], os.listdir(d)):
                    return
        # short items that are right
        h = HandMade(f"{d}/ok")
        h.tensor("model.w", (1000, 3), torch.float32, [((0, 0), (1000, 3), "__0_0.distcp", item_bytes(torch.tensor([[1.0, 2.0, 3.0]]).expand(1000, 3)))], path=("model", "w"))
        h.commit()
        expect("an item of stride 0 is shorter than its tensor", run("export", f"{d}/ok", f"{d}/ok.safetensors"), 0)
        check("and right", torch.equal(safetensors.torch.load_file(f"{d}/ok.safetensors")["w"], torch.tensor([[1.0, 2.0, 3.0]]).expand(1000, 3)))


need_program()
for part in (stopped, limits, hf_forms, old_chunks, progress, nothing, directories, claims):
    with attempt(part.__name__):
        part()
finish()
