"""get: values as JSON judged by torch, slices by torch's own indexing, one file of a name that says its format, order."""
from common import *
from handmade import HandMade, item_bytes

need_program()


def expect(name, r, code, err=""):
    return check(name, r.returncode == code and err in r.stderr, (r.returncode, r.stdout[-300:], r.stderr[-400:]))


def plain(v):
    """value.json's spelling of a number -> Python's."""
    if isinstance(v, dict):
        (k, x), = v.items()
        return int(x) if k == "$int" else float(x) if k == "$float" else v
    return v


def numbers(v, pair):
    """Nested lists of value.json's numbers; @pair: the innermost list is (real, imaginary)."""
    if isinstance(v, list):
        if pair and len(v) == 2 and not isinstance(v[0], list):
            return complex(plain(v[0]), plain(v[1]))
        return [numbers(x, pair) for x in v]
    return plain(v)


def is_tensor(v, t):
    """Is the JSON value @v exactly tensor @t, NaNs by being NaN?"""
    if t.dtype == torch.bool:
        return v == t.tolist() and all(isinstance(x, bool) for _, x in leaves({"": v}))
    got = numbers(v, t.is_complex())
    if not t.is_floating_point() and not t.is_complex():
        return got == t.tolist() and all(type(x) is int for _, x in leaves({"": got}))
    wide = t.to(torch.complex128 if t.is_complex() else torch.float64)
    back = torch.tensor(got, dtype=wide.dtype).reshape(t.shape)
    if t.dtype == torch.float32:  # the shortest text of a float32 is not that float32 as a double
        back, wide = back.to(torch.float32), t
    elif t.dtype == torch.complex64:
        back, wide = back.to(torch.complex64), t
    elif t.dtype not in (torch.float64, torch.complex128):
        back, wide = back.to(torch.float32).to(t.dtype).to(torch.float32), t.to(torch.float32)
    same_ = torch.view_as_real(back) if back.is_complex() else back, torch.view_as_real(wide) if wide.is_complex() else wide
    return bool(torch.equal(torch.isnan(same_[0]), torch.isnan(same_[1])) and torch.equal(torch.nan_to_num(same_[0], 0, 1e300, -1e300), torch.nan_to_num(same_[1], 0, 1e300, -1e300))
                and torch.equal(torch.signbit(same_[0]) | torch.isnan(same_[0]), torch.signbit(same_[1]) | torch.isnan(same_[1])))


special = [0.0, -0.0, 1.0, -1.5, float("nan"), float("inf"), float("-inf"), 0.1, 3.0e-5]
TENSORS = {f"f.{d}": torch.tensor(special).to(getattr(torch, d)) for d in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")}
TENSORS |= {"f.tiny": torch.tensor([5e-324, 1.7976931348623157e308, 0.1 + 0.2], dtype=torch.float64), "f.tiny32": torch.tensor([1e-45, 3.4028235e38, 16777217.0], dtype=torch.float32),
            "c.64": torch.tensor([1 + 2j, complex(float("nan"), -0.0), complex(float("inf"), 1)], dtype=torch.complex64), "c.128": torch.tensor([[0.1 + 0.2j, -1j]], dtype=torch.complex128),
            "i.int64": torch.tensor([-2**63, 2**63 - 1, 2**53, 2**53 + 1, -2**53 - 1, 0]), "i.uint64": torch.tensor([0, 2**64 - 1, 2**53 + 1], dtype=torch.uint64),
            "i.int8": torch.arange(-128, 128).to(torch.int8).reshape(4, 64), "i.uint8": torch.arange(256).to(torch.uint8), "i.int16": torch.tensor([-2**15, 2**15 - 1], dtype=torch.int16),
            "i.int32": torch.tensor([[-2**31], [2**31 - 1]], dtype=torch.int32), "i.uint16": torch.tensor([65535], dtype=torch.uint16), "i.uint32": torch.tensor([2**32 - 1], dtype=torch.uint32),
            "b": torch.tensor([[True, False], [False, False]]), "s.scalar": torch.tensor(2.5), "s.scalar_i": torch.tensor(7), "e.empty": torch.zeros(0), "e.rows": torch.zeros(3, 0), "e.cols": torch.zeros(0, 3),
            "m.w": torch.arange(7 * 11, dtype=torch.float32).reshape(7, 11), "m.cube": torch.arange(3 * 4 * 5, dtype=torch.int64).reshape(3, 4, 5), "m.name[0]": torch.ones(2)}
OBJECTS = {"o.step": 1000, "o.list": [1, 2.5, "x"], "o.text": "a\nb = c", "o.nan": float("nan")}


def values(src):
    for k, t in TENSORS.items():
        r = run("get", src, k, "--format", "json")
        check(f"values of {k}", r.returncode == 0 and r.stdout.endswith("\n") and is_tensor(strict_json(r.stdout), t), (r.stdout[:300], r.stderr))
    r = run("get", src, "f.float32", "--format", "json", "--dtype", "bf16")
    check("values are cast as files are", is_tensor(strict_json(r.stdout), TENSORS["f.float32"].bfloat16()) and not is_tensor(strict_json(r.stdout), TENSORS["f.float32"]), r.stdout[:200])


SLICES = ["[0]", "[-1]", "[0:4]", "[2:3]", "[:]", "[5:2]", "[:100]", "[-2:]", "[0:4,:8]", "[:, 3]", "[..., -1]", "[1, 2]", "[6,10]", "[:0]"]


def slices(src):
    for k, s in [(k, s) for k in ("m.w", "m.cube") for s in SLICES if (k, s) != ("m.cube", "[6,10]")]:
        t = TENSORS[k]
        want = eval("t" + s, {"t": t})
        r = run("get", src, k + s)
        check(f"{k}{s}", r.returncode == 0 and is_tensor(strict_json(r.stdout), want), (r.stdout[:200], r.stderr, want.tolist()))
    for s in ("[7]", "[-8]", "[0,0,0]", "[0:4:2]", "[9223372036854775808]"):
        expect(f"m.w{s} is refused", run("get", src, f"m.w{s}"), 2, "m.w" if ":2]" not in s and "92" not in s else s)
    expect("a slice of a value that is no tensor", run("get", src, "o.list[0]"), 2, "not a tensor")
    expect("a slice in another format", run("get", src, "m.w[0]", "--format", "npy"), 2, "json")
    r = run("get", src, "m.name[0]", "--format", "json")
    check("a name with brackets is that name", strict_json(r.stdout) == [1.0, 1.0], (r.stdout, r.stderr))
    r = run("get", src, "m.*[0]")
    check("a slice of a glob", r.returncode == 0 and [x.split(" = ")[0] for x in r.stdout.splitlines() if " = " in x] == ["m.w[0]", "m.cube[0]", "m.name[0][0]"], (r.stdout, r.stderr))
    with tempfile.TemporaryDirectory() as d:
        expect("slices into a directory", run("get", src, "m.w[0:2,0]", "m.w[1]", "-O", d), 0)
        got = {f: strict_json(open(f"{d}/{f}").read()) for f in os.listdir(d)}
        check("have names of their own", got == {"m.w[0:2,0].json": [0.0, 11.0], "m.w[1].json": TENSORS["m.w"][1].tolist()}, got)
    # only what is asked for is read: one element of a tensor that has a hole elsewhere
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(f"{d}/c")
        h.tensor("m.w", (4, 2), torch.float32, [((0, 0), (2, 2), "__0_0.distcp", item_bytes(torch.ones(2, 2))), ((2, 0), (2, 2), "__0_0.distcp", None)])
        h.commit()
        r = run("get", f"{d}/c", "m.w[1]")
        check("a slice beside damage", r.returncode == 0 and strict_json(r.stdout) == [1.0, 1.0], (r.stdout, r.stderr))
        expect("a slice over damage", run("get", f"{d}/c", "m.w[1:3]"), 1, "m.w")
        # too many
        h = HandMade(f"{d}/big")
        h.tensor("m.w", (1 << 23,), torch.int8, [((0,), (1 << 23,), "__0_0.distcp", item_bytes(torch.zeros(1 << 23, dtype=torch.int8)))])
        h.commit()
        expect("more values than are written out", run("get", f"{d}/big", "m.w", "--format", "json"), 1, "m.w")
        check("a slice of them", strict_json(run("get", f"{d}/big", "m.w[-3:]").stdout) == [0, 0, 0])


def labels(src):
    r = run("get", src, "o")
    lines = r.stdout.splitlines()
    check("a group's values have their names", r.returncode == 0 and lines == ["o.step = 1000", 'o.list = [1, 2.5, "x"]', r'o.text = "a\nb = c"', 'o.nan = {"$float": "nan"}'], r.stdout)
    r = run("get", src, "o.text", "o.step")
    check("in the order asked", [x.split(" = ")[0] for x in r.stdout.splitlines()] == ["o.text", "o.step"], r.stdout)
    check("one value alone is just that", run("get", src, "o.step").stdout == "1000\n")
    r = run("get", src, "o", "m.w", "--format", "json")
    j = strict_json(r.stdout)
    check("--format json of several is one object", list(j) == ["o.step", "o.list", "o.text", "o.nan", "m.w"] and j["o.step"] == 1000 and is_tensor(j["m.w"], TENSORS["m.w"]), r.stdout[:300])
    with tempfile.TemporaryDirectory() as d:
        src = os.path.abspath(src)
        r = run("get", src, "o.step", "m.w", "i.int8", cwd=d)
        check("file names stay apart from values", r.stdout == "1000\n" and [x.split("\t")[0] for x in r.stderr.splitlines()] == ["./m.w.npy", "./i.int8.npy"], (r.stdout, r.stderr))
        r = run("get", src, "m", "b", "i.int8", "-O", "x", cwd=d)
        check("files are told in the order asked", [x.split("\t")[0] for x in r.stdout.splitlines()] == ["x/m.w.npy", "x/m.cube.npy", "x/m.name[0].npy", "x/b.npy", "x/i.int8.npy"] and r.stderr == "", (r.stdout, r.stderr))


def one_file(src):
    with tempfile.TemporaryDirectory() as d:
        src = os.path.abspath(src)
        expect("-O x.safetensors", run("get", src, "m.w", "i.int8", "-O", "x.safetensors", cwd=d), 0)
        check("is that file", os.path.isfile(f"{d}/x.safetensors") and {k: agree(v, TENSORS[k]) for k, v in safetensors.torch.load_file(f"{d}/x.safetensors").items()} == {"m.w": True, "i.int8": True}, os.listdir(d))
        expect("one key as .safetensors into a directory", run("get", src, "b", "--format", "safetensors", "-O", f"{d}/one"), 0)
        check("is a file of the key's name", os.listdir(f"{d}/one") == ["b.safetensors"], os.listdir(f"{d}/one"))
        expect("several", run("get", src, "b", "m.w", "--format", "safetensors", "-O", f"{d}/several"), 0)
        check("are one file", os.listdir(f"{d}/several") == ["tensors.safetensors"], os.listdir(f"{d}/several"))
        expect("-O of one key", run("get", src, "b", "-O", f"{d}/b.safetensors"), 0)
        check("keeps its name", list(safetensors.torch.load_file(f"{d}/b.safetensors")) == ["b"])
        expect("-O x.pt of one", run("get", src, "m.w", "-O", "w.pt", cwd=d), 0)
        check("is the tensor", agree(torch.load(f"{d}/w.pt"), TENSORS["m.w"]))
        expect("-O x.pt of an object", run("get", src, "o.list", "-O", f"{d}/o.pt"), 0)
        check("is the value", torch.load(f"{d}/o.pt") == OBJECTS["o.list"])
        expect("-O x.pt of several", run("get", src, "o", "m.w", "-O", "all.pt", cwd=d), 0)
        v = torch.load(f"{d}/all.pt")
        check("is a dict of them", list(v) == [*OBJECTS, "m.w"] and agree(v["m.w"], TENSORS["m.w"]) and v["o.step"] == 1000, list(v))
        expect("-O x.npy", run("get", src, "m.cube", "-O", "c.npy", cwd=d), 0)
        check("is the array", np.array_equal(np.load(f"{d}/c.npy"), TENSORS["m.cube"].numpy()))
        expect("-O x.raw", run("get", src, "m.cube", "-O", "c.raw", cwd=d), 0)
        check("is the bytes", open(f"{d}/c.raw", "rb").read() == raw(TENSORS["m.cube"]))
        expect("-O x.json", run("get", src, "m.w[0:2]", "-O", "w.json", cwd=d), 0)
        check("is the values", strict_json(open(f"{d}/w.json").read()) == TENSORS["m.w"][:2].tolist())
        before = sorted(os.listdir(d))
        expect("an .npy of several", run("get", src, "m", "-O", "m.npy", cwd=d), 2, "holds one")
        expect("a .safetensors of an object", run("get", src, "o.step", "-O", "s.safetensors", cwd=d), 1, "o.step")
        expect("--format and the name differ", run("get", src, "b", "--format", "pt", "-O", "b2.npy", cwd=d), 2, "b2.npy")
        expect("what is there is not replaced", run("get", src, "b", "-O", "w.pt", cwd=d), 1, "--force")
        check("and nothing is made", sorted(os.listdir(d)) == before)
        expect("unless forced", run("get", src, "b", "-O", "w.pt", "--force", cwd=d), 0)
        os.mkdir(f"{d}/dir.pt")
        expect("a directory of such a name", run("get", src, "b", "-O", "dir.pt", cwd=d), 0)
        check("gets the file", os.listdir(f"{d}/dir.pt") == ["b.npy"])


def agree(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and raw(a) == raw(b)


def slice_or_glob():
    """KEY[…] is a part of KEY where there is that key; a glob where there is none."""
    with tempfile.TemporaryDirectory() as d:
        two = {f"d{i}": torch.arange(i, i + 4) for i in (1, 11)}
        torch.distributed.checkpoint.save(two, checkpoint_id=f"{d}/c", no_dist=True)
        r = run("get", f"{d}/c", "d1[1:]", "--format", "json")
        check("a slice of the key d1, not the key d11", r.returncode == 0 and json.loads(r.stdout) == [2, 3, 4], (r.stdout, r.stderr))
        r = run("get", f"{d}/c", "d1[1]", "--format", "json")
        check("an index of the key d1", r.returncode == 0 and json.loads(r.stdout) == 2, (r.stdout, r.stderr))
        r = run("get", f"{d}/c", "?1[1]", "--format", "json")
        check("a glob where no key is called so", r.returncode == 0 and json.loads(r.stdout) == [11, 12, 13, 14], (r.stdout, r.stderr))


def reader_that_left(source):
    """Writing to a pipe that nobody reads is an error with its message, not a death by SIGPIPE."""
    r, w = os.pipe()
    os.close(r)
    p = subprocess.run([BIN, "get", source, next(iter(TENSORS)), "--format", "raw", "-O", "-"], stdout=w, stderr=subprocess.PIPE, text=True)
    os.close(w)
    check("nobody reads", p.returncode == 1 and "Broken pipe" in p.stderr, (p.returncode, p.stderr))


def train_state():
    src = f"{DATA}/olmo/core_3.0/ckpt/step20"
    want = [torch.load(f"{src}/train/rank{i}.pt", weights_only=False) for i in range(2)]
    for args, rank in (([], 0), (["--rank", "1"], 1), (["--rank", "7"], 0)):
        r = run("get", src, "--train-state", *args)
        v = json.loads(r.stdout)
        check(f"--train-state {args}", r.returncode == 0 and v["global_step"] == want[rank]["global_step"] and v["rng"]["torch"]
              and v["rng"]["python"]["state"][1][:9] == list(want[rank]["rng"]["python"]["state"][1][:9]), r.stdout[:300] + r.stderr)
    for args, says in ((["--rank", "1"], "--rank is of --train-state"), (["--train-state", "x"], "in place of KEY"), ([], "KEY is missing")):
        r = run("get", src, *args)
        check(f"get {args}", r.returncode == 2 and (says in r.stderr or args == ["--rank", "1"]), r.stderr)
    check("no trainer's state", run("get", f"{DATA}/dcp/fsdp4/ckpt", "--train-state").returncode == 1)


with tempfile.TemporaryDirectory() as top:
    state = {}
    for k, v in {**TENSORS, **OBJECTS}.items():
        state[k] = v
    torch.distributed.checkpoint.save(state, checkpoint_id=f"{top}/c", no_dist=True)
    for part in (values, slices, labels, one_file, reader_that_left):
        with attempt(part.__name__):
            part(f"{top}/c")
with attempt("train state"):
    train_state()
with attempt("slice or glob"):
    slice_or_glob()
finish()
