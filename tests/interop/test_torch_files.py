#!/usr/bin/env python3
"""Files of torch.save as SOURCE: what torch.load makes of checkpoint.pt is what it makes of the file itself, in each container, alone, packed,
in a tar, by an index and by a template; what is no such file is refused by name."""
import bz2, collections, gzip, io, json, lzma, os, shutil, subprocess, sys, tarfile, tempfile, warnings, zipfile

BIN = os.environ.get("SHARDFUSE", "./shardfuse")
passed = failed = 0


def check(what, ok, why=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL: {what}: {str(why)[:500]}")


try:
    import numpy as np
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as e:
    print(f"SKIP: no {e.name}\n0 passed, 0 failed, 1 skipped")
    sys.exit(77)
warnings.filterwarnings("ignore")
TMP = tempfile.TemporaryDirectory(prefix="sf-torch-")
ENV = {**os.environ, "XDG_CACHE_HOME": TMP.name + "/cache"}


def run(*args):
    args = [args[0], "--cache-dir", TMP.name + "/cache", *args[1:]] if "--cache-size=0" not in args else args
    return subprocess.run([BIN, *args], capture_output=True, env=ENV, timeout=120)


def same(a, b, at=""):
    """None, or where they differ."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{at}: {a.dtype}{tuple(a.shape)} {b.dtype}{tuple(b.shape)}"
        x, y = (t.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format).reshape(-1) for t in (a, b))
        return None if x.numel() == 0 or torch.equal(x.view(torch.uint8), y.view(torch.uint8)) else f"{at}: bytes"
    if isinstance(a, dict) and isinstance(b, dict):
        if list(a) != list(b) and (at or set(a) != set(b)):  # safetensors has an order of its own
            return f"{at}: keys {list(a)[:8]} {list(b)[:8]}"
        return next((d for k in a if (d := same(a[k], b[k], f"{at}.{k}"))), None)
    if isinstance(a, (list, tuple)) and type(a) is type(b) and len(a) == len(b):
        return next((d for i, (x, y) in enumerate(zip(a, b)) if (d := same(x, y, f"{at}[{i}]"))), None)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return None if a.dtype == b.dtype and np.array_equal(a, b) else f"{at}: arrays"
    return None if type(a) is type(b) and (a == b or a != a) else f"{at}: {a!r} {b!r}"


def optimizer():
    m = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3))
    o = torch.optim.AdamW(m.parameters(), lr=0.01, betas=(0.8, 0.9))
    m(torch.ones(2, 5)).sum().backward()
    o.step()
    return m, o


def values():
    torch.manual_seed(3)
    m, o = optimizer()
    w = torch.arange(24.0).reshape(4, 6)
    big = torch.arange(1000, dtype=torch.int64)
    yield "state_dict", m.state_dict()
    yield "trainer", {"model": m.state_dict(), "optimizer": o.state_dict(), "epoch": 3, "best": float("nan"), "args": {"lr": 1e-3, "tags": ["a", "b"], "none": None}}
    yield "tied", {"emb": w, "head": w, "row": w[1], "t": w.t(), "col": w[:, 2], "step": w[::2, ::3]}
    yield "views", {"mid": big[100:110], "every": big[::7], "zero": big[:0], "scalar": torch.tensor(2.5), "expanded": torch.ones(3, 1).expand(3, 4)}
    yield "dtypes", {str(d)[6:]: torch.arange(6).to(d) for d in (torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.bool, torch.float8_e4m3fn,
                                                                 torch.complex64, torch.uint16, torch.uint32)}
    yield "conj", {"c": torch.tensor([1 + 2j, 3 - 4j]).conj(), "neg": torch.tensor([1 + 2j]).conj().imag}
    yield "objects", {"np": np.arange(5), "scalar": np.float64(2.5), "set": {1, 2}, "bytes": b"\0\xff", "dtype": torch.float16, "size": torch.Size([2, 3]), "big": 2**80,
                      "w": torch.ones(2)}
    yield "sequences", {"list": [torch.ones(2), {"x": torch.zeros(3)}, 5], "tuple": (torch.ones(1), "a"), "plain": [1, 2, [3]], "rng": (3, tuple(range(700)), None), "empty": {}, "no": []}
    yield "lightning", {"pytorch-lightning_version": "2.5.0", "global_step": 12, "epoch": 1, "state_dict": m.state_dict(), "optimizer_states": [o.state_dict()], "lr_schedulers": [{"last_epoch": 1}],
                        "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_path": "x"}}, "hyper_parameters": collections.OrderedDict(lr=1)}
    yield "int_keys", {0: torch.ones(2), 1: {"a.b": torch.zeros(2)}, "1": 5}
    yield "parameter", {"p": torch.nn.Parameter(torch.ones(2, 3)), "buf": torch.nn.Buffer(torch.ones(1))}


def checkpoint_of(source):
    r = run("cat", source, "checkpoint.pt")
    if r.returncode:
        raise RuntimeError(r.stderr.decode()[-300:])
    return torch.load(io.BytesIO(r.stdout), weights_only=False), r.stderr.decode()


def compare(name, source, want):
    try:
        got, said = checkpoint_of(source)
        d = same(got, want)
        check(name, d is None, d)
        v = run("verify", "--deep", source)
        check(name + ": verify", v.returncode == 0, v.stdout + v.stderr)
        return said
    except Exception as e:
        check(name, False, e)


def containers(tmp):
    for name, v in values():
        for how, arg in [("zip", {}), ("stream", {"_use_new_zipfile_serialization": False}), ("proto4", {"pickle_protocol": 4})]:
            p = f"{tmp}/{name}-{how}.pt"
            torch.save(v, p, **arg)
            try:
                want = torch.load(p, weights_only=False)
            except Exception:  # what torch cannot read again: float8 in the stream
                continue
            compare(f"{name} {how}", p, want)
    m, o = optimizer()
    torch.save({"state_dict": m.state_dict(), "optimizer_states": [o.state_dict()]}, f"{tmp}/x.ckpt")
    for root in ("model", "optim"):
        r = run("ls", f"{tmp}/x.ckpt")
        check(f"lightning has a {root}.pt", f"{root}.pt" in r.stdout.decode().split(), r.stdout)


def packed(tmp):
    v = {"model": {"w": torch.randn(300, 7)}, "n": 5}
    torch.save(v, f"{tmp}/p.pt")
    raw = open(f"{tmp}/p.pt", "rb").read()
    t = io.BytesIO()
    with tarfile.open(fileobj=t, mode="w") as f:
        f.add(f"{tmp}/p.pt", "composer_states.pt")
    for name, data in [("p.pt", raw), ("p.tar", t.getvalue())]:
        forms = {".gz": gzip.compress(data), ".bz2": bz2.compress(data), ".xz": lzma.compress(data), ".lzma": lzma.compress(data, format=lzma.FORMAT_ALONE),
                 ".two.gz": gzip.compress(data[:500]) + gzip.compress(data[500:]) + b"\0" * 100, "": data}
        for end, packed_data in forms.items():
            p = f"{tmp}/{name}{end}"
            open(p, "wb").write(packed_data)
            said = compare(f"packed {name}{end}", p, v)
            check(f"packed {name}{end}: it is said", said is not None and ("is packed" in said) == bool(end), said)
            r = run("keys", p)
            check(f"packed {name}{end}: once", r.returncode == 0 and not r.stderr, r.stderr)
            if end:
                os.utime(p, (1, 1))  # another version
                r = run("keys", p)
                check(f"packed {name}{end}: another version is unpacked anew, saying so", r.returncode == 0 and b"is packed" in r.stderr and b"cache directory" in r.stderr, r.stderr)
                open(p, "wb").write(packed_data[:len(packed_data) // 2])
                r = run("keys", p)
                check(f"packed {name}{end}: cut", r.returncode == 1 and b"cut" in r.stderr, r.stderr)
    bomb = f"{tmp}/bomb.pt.gz"
    open(bomb, "wb").write(gzip.compress(b"\0" * (64 << 20)))
    r = run("keys", bomb, "--cache-size=1M")
    check("a bomb ends at the limit, with both numbers", r.returncode == 1 and str(os.path.getsize(bomb)).encode() in r.stderr and b"1048576" in r.stderr, r.stderr)
    r = run("keys", f"{tmp}/p.pt.gz", "--cache-size=0")
    check("nothing is unpacked where nothing may be kept", r.returncode == 1 and b"--cache-size=0" in r.stderr, r.stderr)
    open(f"{tmp}/x.pt.lzo", "wb").write(b"\x89LZO\0\r\n\x1a\n" + raw)
    r = run("keys", f"{tmp}/x.pt.lzo")
    check("lzop is refused by name", r.returncode == 1 and b"lzop -d" in r.stderr, r.stderr)
    open(f"{tmp}/twice.pt.gz", "wb").write(gzip.compress(bz2.compress(raw)))
    r = run("keys", f"{tmp}/twice.pt.gz")
    check("packed twice", r.returncode == 1 and b"packed twice" in r.stderr, r.stderr)


def refused(tmp):
    s = torch.jit.script(torch.nn.Linear(2, 2))
    s.save(f"{tmp}/script.pt")
    for name, data, word in [("script.pt", None, b"TorchScript"), ("text.pt", b"hello" * 200, b"not"), ("empty.pt", b"", b"")]:
        if data is not None:
            open(f"{tmp}/{name}", "wb").write(data)
        r = run("keys", f"{tmp}/{name}")
        check(f"refused: {name}", r.returncode == 1 and word in r.stderr and name.encode() in r.stderr, r.stderr)
    old = io.BytesIO()
    with tarfile.open(fileobj=old, mode="w") as f:
        for m in ("sys_info", "pickle", "tensors", "storages"):
            f.addfile(tarfile.TarInfo(m))
    open(f"{tmp}/old.pt", "wb").write(old.getvalue())
    r = run("keys", f"{tmp}/old.pt")
    check("refused: the tar of torch 0.1", r.returncode == 1 and b"0.1.9" in r.stderr, r.stderr)
    for name in (".metadata", "__0_0.distcp"):
        open(f"{tmp}/{name}", "wb").write(b"x")
        r = run("keys", f"{tmp}/{name}")
        check(f"refused: {name}", r.returncode == 1 and b"give its directory" in r.stderr, r.stderr)


def indexed(tmp):
    d = f"{tmp}/hf"
    os.mkdir(d)
    parts = [{f"l{i}.w": torch.randn(3, i + 1), f"l{i}.b": torch.randn(2)} for i in range(20)]
    names = [f"pytorch_model-{i + 1:05}-of-00020.bin" for i in range(20)]
    for n, p in zip(names, parts):
        torch.save(p, f"{d}/{n}")
    index = {"metadata": {"total_size": 1}, "weight_map": {k: n for n, p in zip(names, parts) for k in p}}
    json.dump(index, open(f"{d}/pytorch_model.bin.index.json", "w"))
    torch.save({"x": 1}, f"{d}/training_args.bin")
    compare("an index", d, {k: v for p in parts for k, v in p.items()})
    r = run("info", d)
    check("an index: what is beside it", b"training_args.bin" in r.stdout, r.stdout)
    os.remove(f"{d}/{names[7]}")
    r = run("verify", d)
    check("an index: a missing file is named", r.returncode == 1 and names[7].encode() in r.stdout + r.stderr, r.stdout + r.stderr)
    r = run("keys", d)
    check("an index: the rest is there", r.returncode == 0 and r.stdout.count(b"\n") == 38, r.stderr)
    index["weight_map"]["l0.w"] = "../x.bin"
    json.dump(index, open(f"{d}/pytorch_model.bin.index.json", "w"))
    r = run("keys", d)
    check("an index that leads out", r.returncode == 1 and b"l0.w" in r.stderr, r.stderr)


def safetensors(tmp):
    v = {"a": torch.randn(3, 4), "b.c": torch.arange(5)}
    save_file(v, f"{tmp}/one.safetensors")
    compare("one .safetensors as .pt", f"{tmp}/one.safetensors", v)
    torch.save(v, f"{tmp}/one.pt")
    r = run("cat", f"{tmp}/one.pt", "checkpoint.safetensors")
    open(f"{tmp}/back.safetensors", "wb").write(r.stdout)
    check("one .pt as .safetensors", same(load_file(f"{tmp}/back.safetensors"), v) is None, r.stderr)
    os.chdir(tmp)
    compare("a relative name", "one.safetensors", v)
    compare("a URL", f"file://{tmp}/one.safetensors", v)
    os.symlink("one.pt", f"{tmp}/latest.pt")
    compare("a link", f"{tmp}/latest.pt", v)


def members(tmp):
    """Archives that are no checkpoint's own: NeMo 1, a zip; a file of torch.save that is called a tar."""
    v = {"a": torch.randn(3), "b": torch.ones(2, 2)}
    torch.save(v, f"{tmp}/model_weights.ckpt")
    with tarfile.open(f"{tmp}/x.nemo", "w:gz") as t:
        t.add(f"{tmp}/model_weights.ckpt", "./model_weights.ckpt")
        t.addfile(tarfile.TarInfo("./model_config.yaml"))
    compare("x.nemo", f"{tmp}/x.nemo", v)
    torch.save(v, f"{tmp}/model_best.pth.tar")
    compare("a .pth.tar that is no tar", f"{tmp}/model_best.pth.tar", v)
    for name, how in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(f"{tmp}/{name}.zip", "w", how) as z:
            z.writestr("README", "x" * 100)
            z.write(f"{tmp}/model_weights.ckpt", "run/../w.pt" if name == "deflated" else "w.pt")
    compare("a stored zip", f"{tmp}/stored.zip", v)
    r = run("keys", f"{tmp}/deflated.zip")
    check("a deflated zip is refused", r.returncode == 1 and b"README" in r.stderr and b"deflated" in r.stderr, r.stderr)
    torch.save(v, f"{tmp}/saved.zip")
    compare("a .zip of torch.save", f"{tmp}/saved.zip", v)
    with tarfile.open(f"{tmp}/bomb.tar", "w") as t:  # a zip bomb in a tar: deflated records are not read
        with zipfile.ZipFile(f"{tmp}/bomb.pt", "w", zipfile.ZIP_DEFLATED) as z:
            z.writestr("a/data.pkl", b"\0" * (32 << 20))
        t.add(f"{tmp}/bomb.pt", "bomb.pt")
    r = run("keys", f"{tmp}/bomb.tar")
    check("a zip bomb in a tar", r.returncode == 1 and b"bomb.pt" in r.stderr, r.stderr)


def nemo(tmp):
    data = os.path.join(os.environ.get("SF_TEST_DATA", "tests/data"), "megatron/0.15.3-flat/ckpt")
    shutil.copytree(data, f"{tmp}/run/step=10-last/weights")
    r = run("keys", f"{tmp}/run/step=10-last")
    check("NeMo's directory", r.returncode == 0, r.stderr)
    open(f"{tmp}/run/step=10-last-unfinished", "w").close()
    r = run("keys", f"{tmp}/run/step=10-last")
    check("NeMo's marker of a save that did not end", r.returncode == 1 and b"step=10-last-unfinished" in r.stderr, r.stderr)


def templates(tmp):
    d = f"{tmp}/ranks"
    os.mkdir(d)
    parts = [{f"w{i}": torch.randn(4)} for i in range(3)]
    for i, p in enumerate(parts):
        torch.save(p, f"{tmp}/part.pt")
        with tarfile.open(f"{d}/ep0-ba2-rank{i}.tar", "w", format=tarfile.PAX_FORMAT) as f:
            f.add(f"{tmp}/part.pt", f"deep/rank{i}.pt")
            f.add(f"{tmp}/part.pt", "composer_states.pt")  # the first rank's is shown
    t = d + "/ep0-ba2-rank{rank}.tar"
    got = checkpoint_of(t)[0]
    check("members of all ranks, the first one's where two have a name", same(got, parts[0]) is None, got)
    r = run("ls", "-R", t, "shards")
    check("members have their names", all(f"deep/rank{i}.pt" in r.stdout.decode() for i in range(3)), r.stdout)
    os.rename(f"{d}/ep0-ba2-rank1.tar", f"{d}/x")
    r = run("keys", t)
    check("a missing rank is named", r.returncode == 1 and b"ep0-ba2-rank1.tar' is missing" in r.stderr, r.stderr)
    r = run("keys", d + "/none-rank{rank}.pt")
    check("a template that matches nothing says what was looked for", r.returncode == 1 and b"none-rank0.pt" in r.stderr and b"ep0-ba2" in r.stderr, r.stderr)
    data = bytearray(open(f"{d}/x", "rb").read())
    for at, byte, word in [(148, 0x39, b"sum"), (1024 + 124, 0x37, b"")]:
        bad = bytearray(data)
        bad[at] = byte
        open(f"{d}/bad.tar", "wb").write(bad)
        r = run("keys", f"{d}/bad.tar")
        check(f"a tar with a wrong byte at {at}", r.returncode == 1 and b"bad.tar" in r.stderr and word in r.stderr, r.stderr)
    open(f"{d}/cut.tar", "wb").write(data[:2048])
    r = run("keys", f"{d}/cut.tar")
    check("a tar that is cut", r.returncode == 1 and b"cut.tar" in r.stderr and b"ends at" in r.stderr, r.stderr)


for test in (containers, packed, refused, indexed, safetensors, members, nemo, templates):
    with tempfile.TemporaryDirectory(dir=TMP.name) as tmp:
        test(tmp)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)
