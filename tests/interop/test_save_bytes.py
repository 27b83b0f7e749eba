#!/usr/bin/env python3
"""What a save puts into its files, as PyTorch loads it: items of all dtypes, objects of every builder and of JSON, and .metadata (of random plans) as FileSystemReader reads it, no larger than
torch's own pickle of the same."""
import json, math, os, pickle, random, subprocess, sys, tempfile, warnings, zipfile

TOOL = os.environ.get("SF_SAVE_BYTES") or os.path.join(os.path.dirname(os.environ.get("SHARDFUSE", "./shardfuse")), "tests/tool_save_bytes")
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
    import torch.distributed.checkpoint as dcp
    import torch.distributed.checkpoint.filesystem as fs
    import torch.distributed.checkpoint.metadata as md
except ImportError as e:
    skip(f"no {e.name} for {sys.executable}")
if not os.access(TOOL, os.X_OK):
    skip(f"{TOOL} is not built")
warnings.filterwarnings("ignore")

SHAPES = [(2, 3), (), (0, 4), (5,), (2, 1, 3, 2)]  # as the tool has them
ABSENT = [n for n in ("bcomplex32",) if not hasattr(torch, n)]  # dtypes of a newer torch


# ---- items ----

def check_tensor(path, name, shape):
    dtype = getattr(torch, name)
    for kw in [{"weights_only": True}, {"weights_only": True, "mmap": True}, {"weights_only": False}]:
        try:
            t = torch.load(path, **kw)
        except Exception as e:
            check(f"{path} {kw}", False, repr(e))
            continue
        want = bytes(i & 1 if name == "bool" else i for i in range(t.numel() * t.element_size()))
        check(f"{path} {kw}", t.dtype == dtype and tuple(t.shape) == shape and t.is_contiguous() and not t.requires_grad and t.storage_offset() == 0 and
              bytes(t.untyped_storage().tolist()) == want, f"{t.dtype} {tuple(t.shape)} {t.stride()}")
    with zipfile.ZipFile(path) as z:
        check(f"zipfile finds no wrong CRC in {path}", z.testzip() is None)
        at = z.getinfo("archive/data/0")
        with open(path, "rb") as f:
            f.seek(at.header_offset + 26)
            lens = f.read(4)
        start = at.header_offset + 30 + int.from_bytes(lens[:2], "little") + int.from_bytes(lens[2:], "little")
        check(f"the payload of {path} begins at a multiple of 64", start % 64 == 0)


def check_tensors(tmp):
    subprocess.run([TOOL, "tensors", tmp], check=True)
    names = {f.split(".")[0] for f in os.listdir(tmp)}
    check("dtypes", len(names) >= 23, sorted(names))
    for name in sorted(names - set(ABSENT)):
        for i, shape in enumerate(SHAPES):
            check_tensor(f"{tmp}/{name}.{i}.pt", name, shape)


# ---- objects ----

def same(a, b):
    """Equal, and of the same types all the way; -0.0 is not 0.0."""
    return a == b and repr(a) == repr(b) and type(a) is type(b)


def wrapped(n):
    return (n + 2**63) % 2**64 - 2**63


def check_objects(tmp):
    subprocess.run([TOOL, "objects", tmp], check=True)
    want = {"none": None, "true": True, "false": False, "float": -0.1, "inf": float("inf"), "str": "aä\U0001f600", "empty": "", "nul": "a\0b",
            "bytes": b"\0\x7f\x80\xff", "list": list(range(2500)), "tuple": tuple(range(2500)), "nolist": [], "notuple": (), "nodict": {},
            "nested": {"list": [(0, 1, 2, 3, 4), torch.bfloat16, "cpu", "cpu", "storage"], 7: None, 0.5: b"\0\xff", (1, "b"): {}},
            "size": torch.Size((2, 0, 70000, 2**40)), "nosize": torch.Size(())}
    for i in range(64):
        want |= {f"int{i}": wrapped(2**i), f"less{i}": 2**i - 1, f"minus{i}": wrapped(-2**i)}
    names = {f[:-3] for f in os.listdir(tmp) if f.endswith(".pt")}
    for name in names:
        if name.startswith("dtype-") and hasattr(torch, name[6:]):
            want[name] = getattr(torch, name[6:])
    absent = {n for n in names if n.startswith("dtype-") and n not in want}
    check("an object of each builder", names - absent == set(want), names ^ set(want))
    for name, value in want.items():
        for only in [True, False]:
            try:
                got = torch.load(f"{tmp}/{name}.pt", weights_only=only)
                check(f"object {name}, weights_only={only}", same(got, value), f"{got!r}")
            except Exception as e:
                check(f"object {name}, weights_only={only}", False, repr(e))
        with zipfile.ZipFile(f"{tmp}/{name}.pt") as z:
            check(f"zipfile finds no wrong CRC in {name}", z.testzip() is None)


def any_json(rng, depth):
    """(JSON text in some spelling)"""
    kind = rng.randrange(8 if depth < 4 else 6)
    blank = lambda: rng.choice(["", "", " ", "\t "])
    if kind == 0:
        return rng.choice(["null", "true", "false"])
    if kind == 1:
        return str(rng.choice([0, 1, -1, 2**63 - 1, -2**63, 2**64 - 1, 2**53 + 1, rng.randint(-2**63, 2**64 - 1)]))
    if kind == 2:
        return rng.choice([repr(rng.uniform(-1, 1)), f"{rng.uniform(-1, 1):e}", f"{rng.randrange(100)}E{rng.randint(-330, 310):+d}", "-0.0", "1.0"])
    if kind in (3, 4, 5):
        chars = ["a", "ä", "\U0001f600", '"', "\\", "\n", "\x7f", "/", "\0", "\ud83d", "\ude00", " "]
        return json.dumps("".join(rng.choice(chars) for _ in range(rng.randrange(6))))
    if kind == 6:
        return "[" + ",".join(blank() + any_json(rng, depth + 1) + blank() for _ in range(rng.randrange(5))) + "]"
    return "{" + ",".join(f"{blank()}{json.dumps(rng.choice(['a', 'b', 'ä', '', 'key']))}{blank()}:{any_json(rng, depth + 1)}" for _ in range(rng.randrange(5))) + "}"


def check_json(tmp, seed):
    rng = random.Random(seed)
    lines = [any_json(rng, 0) for _ in range(300)]
    subprocess.run([TOOL, "json", tmp], input="\n".join(lines).encode(), check=True)
    for i, line in enumerate(lines):
        got = torch.load(f"{tmp}/{i}.pt", weights_only=True)
        check(f"JSON {line}", same(got, json.loads(line)), f"{got!r}")


def check_checks(tmp):
    """What the caller made himself: torch.load and the check agree on what is an archive."""
    made = {"plain": {"a": 1}, "tensors": [torch.zeros(3), torch.ones(2, dtype=torch.bfloat16)], "nothing": None}
    for name, value in made.items():
        torch.save(value, f"{tmp}/{name}.pt")
    with open(f"{tmp}/tensors.pt", "rb") as f:
        whole = f.read()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), f"{tmp}/script.pt")
    no = {"cut": whole[:-30], "pickle": pickle.dumps({"a": 1}), "text": b"some text", "junk": b"xx" + whole}
    for name, data in no.items():
        with open(f"{tmp}/{name}.pt", "wb") as f:
            f.write(data)
    for leave in ["data.pkl", "data/1", "version"]:
        name = "no-" + leave.replace("/", "-")
        with zipfile.ZipFile(f"{tmp}/tensors.pt") as z, zipfile.ZipFile(f"{tmp}/{name}.pt", "w") as to:
            for i in z.infolist():
                if not i.filename.endswith("/" + leave):
                    to.writestr(i.filename, z.read(i))
        no[name] = None
    no["script"] = None
    names = [*made, *no]
    said = subprocess.run([TOOL, "check", *[f"{tmp}/{n}.pt" for n in names]], capture_output=True, text=True, check=True).stdout.splitlines()
    for name, line in zip(names, said):
        check(f"check of {name}", (line == "ok") == (name in made), line)
        try:
            torch.load(f"{tmp}/{name}.pt", weights_only=True)
            loads = True
        except Exception:
            loads = False
        check(f"torch's word on {name}", loads == (name in made))


# ---- .metadata ----

def boxes(rng, shape, most):
    """A grid of the shape: (origin, extent) of each box."""
    cuts = []
    left = most
    for n in shape:
        k = rng.randint(1, max(1, min(n, left)))
        left //= k
        at = sorted(rng.sample(range(1, n), k - 1)) if k > 1 else []
        cuts.append(list(zip([0] + at, at + [n])))
    out = [((), ())]
    for c in cuts:
        out = [(o + (a,), e + (b - a,)) for o, e in out for a, b in c]
    rng.shuffle(out)
    return out


def text(rng):
    words = ["model", "layers", "weight", "0", "optim", "exp_avg", "", "日本", "a.b", "x" * 300, "\U0001f600", "q", "bias", "long_name_of_a_step"]
    return rng.choice(words)


def plan(rng, nkeys, most, module, zstd):
    """(the tool's words, the Metadata that torch would have)"""
    dtypes = ["float32", "bfloat16", "int64", "float8_e4m3fn", "bool", "complex64", "uint16"]
    nranks = rng.randint(1, 40)
    info = getattr(sys.modules[module], "_StorageInfo")
    extra = {"transform_descriptors": [zstd]} if zstd else {}
    words = [nranks, nkeys]
    state, planner, storage = {}, {}, {}
    hexed = lambda s: "x" + s.encode("utf-8", "surrogateescape").hex()

    def place(key, offset, index):
        rank, file, off, n = rng.randrange(nranks), rng.randrange(3), rng.choice([0, 64, 70000, 2**31, 2**40, 2**62]), rng.choice([1000, 2**31 - 1, 2**33])
        storage[md.MetadataIndex(key, offset, index)] = info(f"__{rank}_{file}.distcp", off, n, **extra)
        return [rank, file, off, n]

    while len(state) < nkeys:
        path = [rng.choice([text(rng), rng.randrange(70000)]) for _ in range(rng.randint(1, 6))]
        key = ".".join(map(str, path)) + (f".{len(state)}" if rng.random() < 0.8 else "\udcff")
        if key in state or key == "":
            continue
        plain = rng.random() < 0.3  # no path: one step, the key
        planner[key] = (key,) if plain else tuple(path)
        steps = [0] if plain else [len(path)] + [hexed(s) if isinstance(s, str) else s for s in path]
        if rng.random() < 0.3:
            state[key] = md.BytesStorageMetadata()
            words += [hexed(key), "object", *steps, *place(key, None, None)]
            continue
        name = rng.choice(dtypes)
        shape = (2**62,)
        while math.prod(n or 1 for n in shape) >= 2**58:  # what a tensor can have
            shape = tuple(rng.choice([0, 1, 2, 7, 300, 70000, 2**33]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 6])))
        grad = rng.random() < 0.5
        chunks = boxes(rng, shape, most)
        state[key] = md.TensorStorageMetadata(md.TensorProperties(getattr(torch, name), requires_grad=grad), torch.Size(shape),
                                              [md.ChunkStorageMetadata(torch.Size(o), torch.Size(e)) for o, e in chunks])
        words += [hexed(key), "tensor", name, int(grad), *steps, len(shape), *shape, len(chunks)]
        for i, (o, e) in enumerate(chunks):
            words += [*place(key, o, i), *o, *e]
    return words, md.Metadata(state, planner, storage, version="1.0.0")


def check_program(tmp, what, want):
    """The program's reading: each shard of each tensor."""
    program = os.environ.get("SHARDFUSE", "./shardfuse")
    if not os.access(program, os.X_OK):
        return
    said = subprocess.run([program, "cat", tmp, "tensors.json"], capture_output=True)
    shown = {t["key"]: t for t in json.loads(said.stdout or '{"tensors": []}')["tensors"]}
    tensors = {k: v for k, v in want.state_dict_metadata.items() if hasattr(v, "size")}
    check(f"{what}: the program's keys", set(shown) == set(tensors), said.stderr)
    for key in shown.keys() & tensors:
        v, got = tensors[key], shown[key]
        chunks = [c for c in v.chunks if math.prod(c.sizes) > 0]
        places = [want.storage_data[md.MetadataIndex(key, c.offsets)] for c in chunks]
        check(f"{what}: the program's {key!r}", got["shape"] == list(v.size) and f"torch.{got['dtype']}" == str(v.properties.dtype) and
              sorted(([*s["origin"]], [*s["extent"]], s["file"], s["offset"], s["length"]) for s in got["shards"] if math.prod(s["extent"]) > 0) ==
              sorted(([*c.offsets], [*c.sizes], p.relative_path, p.offset, p.length) for c, p in zip(chunks, places)), got)


def check_metadata(tmp, seed, nkeys, most, module=fs.__name__, zstd=None):
    rng = random.Random(seed)
    words, want = plan(rng, nkeys, most, module, zstd)
    what = f"metadata of seed {seed}, {len(want.storage_data)} chunks"
    path = os.path.join(tmp, ".metadata")
    subprocess.run([TOOL, "metadata", path, module, zstd or "-"], input=" ".join(map(str, words)).encode(), check=True)
    got = fs.FileSystemReader(tmp).read_metadata()
    got.storage_meta = None  # the reader's own
    check(f"{what}: keys", list(got.state_dict_metadata) == list(want.state_dict_metadata))
    check(f"{what}: state_dict_metadata", got.state_dict_metadata == want.state_dict_metadata)
    check(f"{what}: planner_data", got.planner_data == want.planner_data)
    check(f"{what}: storage_data", got.storage_data == want.storage_data)
    hints = {k: k.index for k in got.storage_data}
    check(f"{what}: hints", all(hints[k] == k.index for k in want.storage_data))
    check(f"{what}: all of it", got == want)
    why = differ(got, pickle.loads(pickle.dumps(want)))
    check(f"{what}: types", not why, why)
    check_program(tmp, what, want)
    size = os.path.getsize(path)
    torchs = len(pickle.dumps(want, 4))
    check(f"{what}: no larger than torch's", size <= torchs, f"{size} and {torchs}")
    with open(path, "rb") as f:
        data = f.read()
    try:
        check(f"{what}: Python's own unpickler", pickle._loads(data) == want)
    except Exception as e:
        check(f"{what}: Python's own unpickler", False, repr(e))


def differ(a, b, at=""):
    """Where two values differ in type or value, down to the last; None: nowhere."""
    if type(a) is not type(b):
        return f"{at}: {type(a)} and {type(b)}"
    if isinstance(a, dict):
        order = lambda d: [x for k in sorted(d, key=repr) for x in (k, d[k])]
        return differ(order(a), order(b), at)
    if isinstance(a, (list, tuple)):
        return f"{at}: {len(a)} and {len(b)}" if len(a) != len(b) else next((d for i, (x, y) in enumerate(zip(a, b)) if (d := differ(x, y, f"{at}[{i}]"))), None)
    if hasattr(a, "__dict__") and not isinstance(a, type):
        return differ(vars(a), vars(b), f"{at}.{type(a).__name__}")
    return None if a == b else f"{at}: {a!r} and {b!r}"


# ---- a checkpoint ----

def check_checkpoint(tmp):
    """Items one after another in a shard, and .metadata: dcp.load's and the program's reading."""
    files = sorted(f for f in os.listdir(tmp) if f.endswith(".pt") and f.split(".")[0] not in ABSENT)
    ckpt = os.path.join(tmp, "ckpt")
    os.mkdir(ckpt)
    words, want, off = [1, len(files)], {}, 0
    with open(os.path.join(ckpt, "__0_0.distcp"), "wb") as shard:
        for f in files:
            name, i, _ = f.split(".")
            shape, size = SHAPES[int(i)], os.path.getsize(os.path.join(tmp, f))
            with open(os.path.join(tmp, f), "rb") as item:
                shard.write(item.read())
            want[f] = torch.load(os.path.join(tmp, f))
            words += ["x" + f.encode().hex(), "tensor", name, 0, 0, len(shape), *shape, 1, 0, 0, off, size, *[0] * len(shape), *shape]
            off += size
    subprocess.run([TOOL, "metadata", os.path.join(ckpt, ".metadata"), fs.__name__, "-"], input=" ".join(map(str, words)).encode(), check=True)
    equal = lambda a, b: a.dtype == b.dtype and a.shape == b.shape and a.untyped_storage().tolist() == b.untyped_storage().tolist()
    got = {k: torch.empty_like(v) for k, v in want.items()}
    dcp.load(got, checkpoint_id=ckpt, no_dist=True)
    for k in want:
        check(f"dcp.load {k}", equal(got[k], want[k]))
    program = os.environ.get("SHARDFUSE", "./shardfuse")
    if not os.access(program, os.X_OK):
        return
    said = subprocess.run([program, "info", ckpt, "--json"], capture_output=True, text=True)
    info = json.loads(said.stdout or "{}")
    check("shardfuse info", said.returncode == 0 and info.get("format") == "dcp" and sum(g["tensors"] for g in info["groups"]) == len(files) and not info["warnings"],
          said.stdout + said.stderr)
    pt = os.path.join(tmp, "whole.pt")
    with open(pt, "wb") as f:
        subprocess.run([program, "cat", ckpt, "checkpoint.pt"], stdout=f, check=True)
    got = torch.load(pt)
    for k in want:
        check(f"shardfuse cat {k}", equal(got[k], want[k]))


with tempfile.TemporaryDirectory() as tmp:
    check_tensors(tmp)
    check_checkpoint(tmp)
with tempfile.TemporaryDirectory() as tmp:
    check_objects(tmp)
with tempfile.TemporaryDirectory() as tmp:
    check_json(tmp, 1)
with tempfile.TemporaryDirectory() as tmp:
    check_checks(tmp)
with tempfile.TemporaryDirectory() as tmp:
    for seed in range(30):
        check_metadata(tmp, seed, random.Random(seed).choice([1, 2, 3, 30]), 40)
    check_metadata(tmp, 1000, 1, 5000)
    check_metadata(tmp, 1001, 2500, 30)
    check_metadata(tmp, 1002, 40, 40, zstd="stream.zstd/1")
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
