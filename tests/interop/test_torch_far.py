#!/usr/bin/env python3
"""One file, templates, tars and packed files from a web server: what comes of them here, and how many requests that takes."""
import tarfile

from common import *
import file_server

need_program()
URL = f"http://127.0.0.1:{file_server.server.server_port}"
ask = file_server.Handler.do_GET
asked = []


def do_GET(self):
    asked.append((self.command, self.path))
    ask(self)


file_server.Handler.do_GET = do_GET
torch.manual_seed(1)


def far(tmp, *args):
    asked.clear()
    return run(args[0], "--cache-dir", tmp + "/cache", *args[1:], text=False)


def value_of(tmp, source):
    r = far(tmp, "cat", source, "checkpoint.pt")
    return torch.load(io.BytesIO(r.stdout), weights_only=False) if r.returncode == 0 else r.stderr


def plain(v):
    """OrderedDicts are shown as dicts."""
    return {k: plain(x) for k, x in v.items()} if isinstance(v, dict) else [plain(x) for x in v] if type(v) is list else v


def the_same(what, got, want):
    check(what, isinstance(got, dict) and same(plain(got), plain(want)) is None, got if isinstance(got, bytes) else same(plain(got), plain(want)))


def test_files():
    base = f"{URL}/composer-0.32"
    local = torch.load(f"{DATA}/composer-0.32/mono/ckpt/ep0-ba2-rank0.pt", weights_only=False)
    with tempfile.TemporaryDirectory() as tmp:
        the_same("one file", value_of(tmp, f"{base}/mono/ckpt/ep0-ba2-rank0.pt"), local)
        want = value_of(tmp, f"{DATA}/composer-0.32/packed/files/ptar.tar")
        for name in sorted(os.listdir(f"{DATA}/composer-0.32/packed/files")):
            got = value_of(tmp, f"{base}/packed/files/{name}")
            if isinstance(got, bytes) and b"built without" in got:
                continue
            the_same(name, got, want)
            n = len(asked)
            r = far(tmp, "keys", f"{base}/packed/files/{name}")
            check(f"{name}: nothing is unpacked twice", r.returncode == 0 and not r.stderr and len(asked) <= 2, (asked, r.stderr))
        the_same("a query goes to each request", value_of(tmp, f"{base}/mono/ckpt/ep0-ba2-rank0.pt?token=a%2Fb"), local)
        check("with its query", all(p.endswith("?token=a%2Fb") for _, p in asked), asked)
        r = far(tmp, "keys", f"{base}/mono/ckpt/nothing.pt")
        check("a file that is not there", r.returncode == 1 and b"nothing.pt" in r.stderr, r.stderr)


def test_tars():
    with tempfile.TemporaryDirectory(dir=DATA) as d, tempfile.TemporaryDirectory() as tmp:
        at = f"{URL}/{os.path.basename(d)}"
        parts = {}
        for rank in range(5):
            with tarfile.open(f"{d}/x-rank{rank}.tar", "w") as t:
                for i in range(40):
                    data = os.urandom(rank * 100 + 1)
                    info = tarfile.TarInfo(f"r{rank}/{i}.bin")
                    info.size = len(data)
                    t.addfile(info, io.BytesIO(data))
                    parts[info.name] = data
                if rank == 0:
                    torch.save({"w": torch.ones(300000)}, f"{d}/w.pt")
                    t.add(f"{d}/w.pt", "composer_states.pt")
        r = far(tmp, "keys", at + "/x-rank{rank}.tar")
        check("a template", r.returncode == 0 and r.stdout == b"w\n", r.stderr)
        check("looks for sixteen, and reads headers by windows", len(asked) <= 16 + 5 + 4 + 8, len(asked))
        for name in ("r0/7.bin", "r4/39.bin"):
            r = far(tmp, "cat", at + "/x-rank{rank}.tar", "shards/" + name)
            check(f"member {name}", r.stdout == parts[name], r.stderr)
        os.remove(f"{d}/x-rank3.tar")
        r = far(tmp, "keys", at + "/x-rank{rank}.tar")
        check("a missing rank", r.returncode == 1 and b"x-rank3.tar' is missing" in r.stderr, r.stderr)
        file_server.server.bytes = 0
        r = far(tmp + "/2", "keys", at + "/x-rank0.tar")
        check("of a large member nothing is read", r.returncode == 0 and file_server.server.bytes < 700000, file_server.server.bytes)


for f in (test_files, test_tars):
    with attempt(f.__name__):
        f()
# a set of rank files of any world size: its config says how many there are
name = next(c for c in sorted(os.listdir(f"{DATA}/rankfiles-2.13")) if not c.split("_")[-1] in ("1", "2", "4", "8") and os.path.exists(f"{DATA}/rankfiles-2.13/{c}/ckpt/fsdp_config.json"))
near, there = run("keys", f"{DATA}/rankfiles-2.13/{name}/ckpt"), run("keys", f"{URL}/rankfiles-2.13/{name}/ckpt")
check(f"rank files of {name}", near.returncode == 0 and near.stdout == there.stdout, there.stderr)
finish()
