#!/usr/bin/env python3
"""Tensor subclasses (torchao's): carried into .pt as they were pickled, their inner tensors in .safetensors, none of them breaks a view.

torchao itself is not needed: classes of its names stand in, and torch rebuilds instances of those."""
import re
import shutil
import types
import zlib

from common import *

need_fuse()
STANDINS = []


class Value:
    """What else is in their attributes: enumerators and the like."""
    def __init__(self, *args):
        self.args = args


def stand_in(module, name, tensor):
    """A wrapper subclass of that name: torch.load makes instances and gives them their attributes."""
    wrap = {"__module__": module, "__torch_dispatch__": classmethod(lambda c, f, t, a=(), k=None: NotImplemented)}
    cls = type(name, (torch.Tensor,), wrap) if tensor else type(name, (Value,), {"__module__": module})
    at = ""
    for part in module.split("."):
        at = f"{at}.{part}" if at else part
        if at not in sys.modules:
            sys.modules[at] = types.ModuleType(at)
            sys.modules[at].__path__ = []
    setattr(sys.modules[module], name, cls)
    STANDINS.append(cls)


def stand_in_all(ckpt, classes):
    for f in os.listdir(ckpt):
        with open(f"{ckpt}/{f}", "rb") as b:
            for m, n in set(re.findall(rb"c(torchao[a-zA-Z0-9_.]*)\n([a-zA-Z0-9_.]+)\n", b.read())):
                m, n = m.decode(), n.decode()
                if not hasattr(sys.modules.get(m), n):
                    stand_in(m, n, f"{m}.{n}" in classes)


def load_case(name):
    d = os.path.join(DATA, "torchao-0.18", name)
    with open(d + "/subclasses.json") as f:
        exp = json.load(f)
    subs = {}
    for k, v in exp["subclasses"].items():
        subs |= {f"{k}.{i}": x for i, x in enumerate(v)} if isinstance(v, list) else {k: v}
    return d + "/ckpt", exp, subs


def at(v, key):
    for part in key.split("."):
        v = v[int(part)] if isinstance(v, list) else v[part]
    return v


def inner(t, name):
    for part in name.split("."):
        t = t.__dict__[part]
    return t


def check_instance(what, t, want):
    ok = f"{type(t).__module__}.{type(t).__qualname__}" == want["class"] and list(t.shape) == want["shape"] and str(t.dtype) == "torch." + want["dtype"]
    check(f"{what}: class, dtype, shape", ok, (type(t), t.shape, t.dtype))
    for name, e in want["parts"].items():
        p = inner(t, name)
        check(f"{what}.{name}", str(p.dtype) == "torch." + e["dtype"] and list(p.shape) == e["shape"] and hashlib.sha256(raw(p)).hexdigest() == e["sha256"])


def test_case(name):
    ckpt, exp, subs = load_case(name)
    stand_in_all(ckpt, {s["class"] for s in subs.values()})
    j = jrun("info", ckpt)
    for s in subs.values():
        check(f"{name}: {s['class']} is named in info.json", any(w["code"] == "tensor-subclass" and s["class"] in w["text"] for w in j["warnings"]), j["warnings"])
    out = run("info", ckpt).stdout
    check(f"{name}: and in info", all(s["class"] in out for s in subs.values()), out)
    for what, text in (("info", out), ("README", run("cat", ckpt, "README").stdout)):
        lines = [x for x in text.splitlines() if any(s["class"] in x for s in subs.values()) and "weights_only=True" in x]
        check(f"{name}: {what} says what loads them", lines and all("-o objects=plain or after import torchao: " in x for x in lines), lines)
    check(f"{name}: verify --deep", run("verify", "--deep", ckpt).returncode == 0)
    check(f"{name}: -o complete", run("info", ckpt, "--complete").returncode == 0)
    with Mount(ckpt) as m, tempfile.TemporaryDirectory() as d:
        check(f"{name}: the class is in README", all(s["class"] in open(f"{m}/README").read() for s in subs.values()))
        for mm in (False, True):
            v = torch.load(f"{m}/checkpoint.pt", weights_only=False, mmap=mm)
            for k, s in subs.items():
                check_instance(f"{name}: checkpoint.pt mmap={mm} {k}", at(v, k), s)
            for k, e in exp["tensors"].items():
                check(f"{name}: checkpoint.pt mmap={mm} {k}", hashlib.sha256(raw(at(v, k))).hexdigest() == e["sha256"])
            del v
        optim = torch.load(f"{m}/optim.pt", weights_only=False)
        for k, s in subs.items():
            if k.startswith("optim."):
                check_instance(f"{name}: optim.pt {k}", at(optim, k.split(".", 1)[1]), s)
        try:
            torch.load(f"{m}/checkpoint.pt", weights_only=True)
            check(f"{name}: weights_only=True refuses classes it does not know", False)
        except pickle.UnpicklingError as e:
            check(f"{name}: weights_only=True refuses classes it does not know", any(s["class"] in str(e) for s in subs.values()), e)
        with torch.serialization.safe_globals(STANDINS):
            try:
                v = torch.load(f"{m}/checkpoint.pt", weights_only=True)
                check(f"{name}: weights_only=True takes those that are allowed", all(type(at(v, k)).__module__.startswith("torchao") for k in subs))
            except pickle.UnpicklingError as e:
                check(f"{name}: weights_only=True takes those that are allowed", False, e)
        n, h = st_header(f"{m}/checkpoint.safetensors")
        want = set(exp["tensors"]) | {f"{k}.{p}" for k, s in subs.items() for p in s["parts"]}
        check(f"{name}: checkpoint.safetensors has the inner tensors", set(h) - {"__metadata__"} == want, sorted(set(h) ^ want)[:6])
        with safe_open(f"{m}/checkpoint.safetensors", "pt") as f:
            for k, s in subs.items():
                for p, e in s["parts"].items():
                    check(f"{name}: checkpoint.safetensors {k}.{p}", hashlib.sha256(raw(f.get_tensor(f"{k}.{p}"))).hexdigest() == e["sha256"])
        skipped = {x["key"]: x["why"] for x in json.loads(h["__metadata__"]["shardfuse.skipped"])}
        check(f"{name}: skipped says what they are", all("tensor subclass" in skipped.get(k, "") for k in subs), skipped)
        for k, s in subs.items():
            check(f"{name}: no npy/{k}.npy", not os.path.exists(f"{m}/npy/{k}.npy"))
            r = run("get", ckpt, k, "--format", "npy", "-O", d)
            check(f"{name}: get {k} as npy says why", r.returncode == 1 and "tensor subclass" in r.stderr, r.stderr)
            js = json.load(open(f"{m}/state/{k.replace('.', '/')}/value.json"))
            check(f"{name}: value.json {k}", js["$tensor"] == {"dtype": s["dtype"], "shape": s["shape"]} and js["$class"] == s["class"], js)
            check_instance(f"{name}: value.pt {k}", torch.load(f"{m}/state/{k.replace('.', '/')}/value.pt", weights_only=False), s)
        r = run("export", ckpt, f"{d}/out.pt")
        check(f"{name}: export", r.returncode == 0, r.stderr)
        v = torch.load(f"{d}/out.pt", weights_only=False)
        for k, s in subs.items():
            check_instance(f"{name}: export {k}", at(v, k), s)
        plain = torch.load(f"{d}/out.pt", weights_only=False)
        del v, plain
        r = run("export", ckpt, f"{d}/out.safetensors", "--optim")
        check(f"{name}: export .safetensors", r.returncode == 0 and set(st_header(f"{d}/out.safetensors")[1]) - {"__metadata__"} == want, r.stderr)
    with Mount(ckpt, "objects=plain") as m:
        v = torch.load(f"{m}/checkpoint.pt", weights_only=True)
        check(f"{name}: objects=plain leaves them out", all(hashlib.sha256(raw(at(v, k))).hexdigest() == e["sha256"] for k, e in exp["tensors"].items()))


def test_advice():
    """Only where torchao registers all that is refused is an import offered, and no package that a checkpoint names."""
    def lines(ckpt):
        return {re.search(r'MNT/(\w+)\.pt', x)[1]: x.partition("#")[2] for x in run("info", ckpt).stdout.splitlines() if "torch.load(" in x and "/pt/" not in x}
    ckpt, exp, subs = load_case("single")
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(ckpt, f"{d}/other")
        n = 0
        for f in os.listdir(f"{d}/other"):
            old = open(f"{d}/other/{f}", "rb").read()
            n += old.count(b"torchao.optim.")
            new = old.replace(b"torchao.optim.", b"antigravity.x.")
            for o in re.finditer(rb"PK\x07\x08(.{4})(.{4})", old, re.S):  # a member's CRC stands behind it, and in the directory
                at, size = o.start(), int.from_bytes(o[2], "little")
                if size <= at and zlib.crc32(old[at - size:at]) == int.from_bytes(o[1], "little"):
                    new = new.replace(o[1], zlib.crc32(new[at - size:at]).to_bytes(4, "little"))
            open(f"{d}/other/{f}", "wb").write(new)
        got = lines(f"{d}/other")
        check("a package of any name: no import", n and "antigravity" in got["optim"] and "import" not in got["optim"], got)
        check("one of both: no import for all", "antigravity" in got["checkpoint"] and "import" not in got["checkpoint"], got)
        check("torchao's alone: the import", "after import torchao" in got["model"], got)


def test_other_values():
    """Items that hold another kind of tensor where metadata promises a dense one: objects too. What is no tensor at all stays damage: torch refuses it there."""
    from handmade import HandMade, item_bytes
    from torch.testing._internal.two_tensor import TwoTensor
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(d + "/c")
        dense = torch.arange(1000.).view(100, 10)
        sparse = torch.eye(5).to_sparse()
        two = TwoTensor(torch.arange(6.).view(2, 3), torch.arange(6.).view(2, 3) + 10)
        for k, t, v in (("dense", dense, dense), ("sparse", torch.empty(5, 5), sparse), ("two", torch.empty(2, 3), two)):
            b = io.BytesIO()
            torch.save(v, b)
            h.tensor(k, t.shape, t.dtype, [((0,) * t.dim(), tuple(t.shape), "__0_0.distcp", b.getvalue())], path=(k,))
        h.commit()
        check("verify", run("verify", "--deep", d + "/c").returncode == 0, run("verify", "--deep", d + "/c").stdout)
        with Mount(d + "/c") as m:
            v = torch.load(f"{m}/checkpoint.pt", weights_only=False)
            check("all values are there", torch.equal(v["dense"], dense) and torch.equal(v["sparse"].to_dense(), torch.eye(5)) and torch.equal(v["two"].b, two.b), v)
            with safe_open(f"{m}/checkpoint.safetensors", "pt") as f:
                check("inner tensors", torch.equal(f.get_tensor("two.b"), two.b) and torch.equal(f.get_tensor("dense"), dense), list(f.keys()))


def test_no_tensor():
    from handmade import HandMade, item_bytes
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(d + "/c")
        for k, v in (("dense", torch.arange(12.).view(3, 4)), ("dict", {"a": 1}), ("path", pathlib.PurePosixPath("/x"))):
            b = io.BytesIO()
            torch.save(v, b)
            h.tensor(k, (3, 4), torch.float32, [((0, 0), (3, 4), "__0_0.distcp", b.getvalue())], path=(k,))
        h.commit()
        j = jrun("info", d + "/c")
        check("no object is made of it", j["tensors"] == 3 and j["objects"] == 0, j)
        check("verify --deep finds it", run("verify", "--deep", d + "/c").returncode == 1)
        r = run("export", d + "/c", d + "/x.pt")
        check("and it never gets into a .pt", r.returncode != 0 and not os.path.exists(d + "/x.pt"), r.stderr)


def test_lazy():
    """Dense tensors cost a few looks at load, however many they are."""
    from handmade import HandMade, item_bytes
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(d + "/c")
        for i in range(500):
            t = torch.full((i % 7 + 1, i % 11 + 1), float(i))
            b = io.BytesIO()
            torch.save(t, b)
            h.tensor(f"w{i}", t.shape, t.dtype, [((0, 0), tuple(t.shape), "__0_0.distcp", b.getvalue())], path=(f"w{i}",))
        h.commit()
        with Mount(d + "/c") as m:
            c = counters(m)
            n = c["fetched_requests"]["header"]
            check("few looks at 500 dense tensors", n <= 8, c)


def test_empty_key():
    """Such a tensor whose key is the empty name, and the first one: there is no text to point to."""
    from handmade import HandMade, item_bytes
    with tempfile.TemporaryDirectory() as d:
        h = HandMade(d + "/c")
        h.tensor("", (4, 4), torch.float32, [((0, 0), (4, 4), "__0_0.distcp", item_bytes(torch.eye(4).to_sparse()))])
        h.commit()
        r = run("info", d + "/c")
        check("info of an empty key", r.returncode == 0 and "_rebuild_sparse_tensor" in r.stdout, (r.returncode, r.stdout[-300:], r.stderr))


for name in ("single", "sharded"):
    with attempt(name):
        test_case(name)
for f in (test_advice, test_other_values, test_no_tensor, test_lazy, test_empty_key):
    with attempt(f.__name__):
        f()
finish()
