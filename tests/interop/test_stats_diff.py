#!/usr/bin/env python3
"""stats, diff and explain against numpy and torch: every dtype, NaN and Inf, many blocks; two checkpoints of other shardings."""
import warnings

from common import *  # noqa: F403
import torch.distributed.checkpoint as dcp

need_program()
FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
INTS = ("uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "bool")
COMPLEX = ("complex64", "complex128")


def save(sd, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(sd, checkpoint_id=str(path), no_dist=True)
    return str(path)


def values(seed):
    g = torch.Generator().manual_seed(seed)
    out = {}
    for n in FLOATS:
        out[n] = (torch.randn(37, 1009, generator=g, dtype=torch.float64) * 3).to(getattr(torch, n))
    for n in INTS:
        top = 2 if n == "bool" else 100
        out[n] = torch.randint(0, top, (401, 13), generator=g).to(getattr(torch, n))
    for n in COMPLEX:
        out[n] = torch.randn(70, 11, generator=g, dtype=getattr(torch, n))
    odd = torch.randn(5000, generator=g)
    odd[::7] = 0
    odd[1::11] = float("nan")
    odd[3::13] = float("inf")
    odd[5::17] = float("-inf")
    out.update(odd=odd, none=torch.empty(0, 3), all_nan=torch.full((9,), float("nan")), one=torch.tensor(2.5),
               far=torch.randn(300000, generator=g, dtype=torch.float64) * 1e-3 + 1e6, huge=torch.tensor([1e308, -1e308, 3.0], dtype=torch.float64))
    return out


def numbers(t):
    if t.is_complex():
        t = torch.view_as_real(t)
    return (t if t.dtype in (torch.uint16, torch.uint32, torch.uint64) else t.to(torch.float64)).reshape(-1).numpy().astype(np.float64)


def near(a, b, scale):
    return a is None and not math.isfinite(b) or a is not None and abs(a - b) <= 1e-9 * max(abs(b), scale, 1e-300)


def stats(ck, sd):
    got = {t["key"]: t for t in jrun("stats", ck, "--histogram")["tensors"]}
    check("stats: all tensors", set(got) == set(sd), sorted(set(got) ^ set(sd)))
    for k, t in sd.items():
        x, j = numbers(t), got[k]
        fin = x[np.isfinite(x)]
        counts = (x.size, int((x == 0).sum()), int(np.isnan(x).sum()), int((x == np.inf).sum()), int((x == -np.inf).sum()))
        check(f"stats {k}: counts", (j["numbers"], j["zeros"], j["nan"], j["inf"], j["neg_inf"]) == counts, (j, counts))
        check(f"stats {k}: dtype and shape", j["dtype"] == str(t.dtype)[6:] and j["shape"] == list(t.shape), j)
        if not fin.size:
            check(f"stats {k}: nothing of nothing", "min" not in j and "histogram" not in j, j)
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            scale = np.abs(fin).max()
            check(f"stats {k}: extremes", j["min"] == fin.min() and j["max"] == fin.max(), (j["min"], fin.min(), j["max"], fin.max()))
            if k != "huge":  # its distances are no doubles
                check(f"stats {k}: mean", near(j["mean"], fin.mean(), scale), (j["mean"], fin.mean()))
                check(f"stats {k}: std", near(j["std"], fin.std(), fin.std()), (j["std"], fin.std()))
        check(f"stats {k}: the histogram counts all", sum(j["histogram"]) == fin.size, j["histogram"])
        if k != "huge":  # numpy's range overflows
            want = np.histogram(fin, 20)[0]
            off = int(np.abs(want - np.array(j["histogram"])).sum())  # an edge may fall to either side
            check(f"stats {k}: histogram", off <= 2 * max(2, fin.size // 1000) or len(np.unique(fin)) < 200, (want.tolist(), j["histogram"]))
    r = run("stats", ck, "odd", "-H")
    check("stats -H draws", r.returncode == 0 and r.stdout.count("#") > 40 and "odd" in r.stdout, r.stdout)
    r = run("stats", ck, "nothing")
    check("stats of no key", r.returncode == 1 and "nothing" in r.stderr, r.stderr)
    r = run("stats", ck, "one[0]")
    check("stats of a slice is refused", r.returncode == 2, r.stderr)


def diff_is(name, a, b, code, *args):
    r = run("diff", a, b, "--json", *args)
    check(f"diff {name}: exit {code}", r.returncode == code, (r.returncode, r.stderr))
    return json.loads(r.stdout) if r.stdout else {}


def diff(d, sd):
    a, b = {"w": sd, "step": 3, "name": "x"}, {"w": dict(sd), "step": 4, "name": "x"}
    x, y = save(a, f"{d}/a"), save(a, f"{d}/same")
    j = diff_is("of the same", x, y, 0, "--values")
    check("diff of the same: nothing", not j["only_a"] and not j["only_b"] and not j["changed"] and j["same"] == len(sd) + 2, j)
    w = b["w"]
    del w["uint8"]
    w["new"] = torch.ones(2)
    w["int8"] = w["int8"][:5]
    w["float32"] = w["float32"].clone()
    w["float32"][3, 7] += 0.25
    w["float64"] = w["float64"].to(torch.bfloat16)
    w["odd"] = w["odd"].clone()
    w["odd"][1] = 7.0  # was NaN
    w["int32"] = w["int32"].float()  # the same numbers
    z = save(b, f"{d}/b")
    j = diff_is("of others", x, z, 1)
    check("diff: only in one", [k["key"] for k in j["only_a"]] == ["w.uint8"] and [k["key"] for k in j["only_b"]] == ["w.new"], j)
    check("diff: structure alone", {k["key"] for k in j["changed"]} == {"w.int8", "w.float64", "w.int32"}, j["changed"])
    j = diff_is("of others' values", x, z, 1, "--values")
    by = {k["key"]: k for k in j["changed"]}
    check("diff --values: all that differ", set(by) == {"w.int8", "w.float64", "w.float32", "w.odd", "w.int32", "step"}, sorted(by))
    f = by["w.float32"]
    p, q = a["w"]["float32"].double(), w["float32"].double()
    check("diff: one element", f["differ"] == 1 and f["max_at"] == 3 * 1009 + 7 and abs(f["max_abs"] - (p - q).abs().max().item()) < 1e-12, f)
    p, q = a["w"]["float64"], w["float64"].double()
    rel = ((p - q).abs() / torch.maximum(p.abs(), q.abs())).max().item()
    f = by["w.float64"]
    check("diff: over dtypes", f["differ"] == int((p != q).sum()) and near(f["max_abs"], (p - q).abs().max().item(), 0) and near(f["max_rel"], rel, 0), (f, rel))
    check("diff: a NaN on one side", by["w.odd"]["differ"] == 1 and by["w.odd"]["max_abs"] == {"$float": "inf"} and by["w.odd"]["max_at"] == 1, by["w.odd"])
    check("diff: the same numbers of another dtype", by["w.int32"]["differ"] == 0, by["w.int32"])
    check("diff: an object", by["step"]["differ"] is True, by["step"])
    r = run("diff", x, z, "--values")
    check("diff for people", r.returncode == 1 and "- w.uint8" in r.stdout and "+ w.new" in r.stdout and "~ step  another value" in r.stdout and "only in the first" in r.stderr, r.stdout + r.stderr)
    r = run("diff", x, f"{d}/nowhere")
    check("diff with nothing: exit 2", r.returncode == 2 and "nowhere" in r.stderr, r.stderr)


def shardings(d):
    """The same state, cut otherwise."""
    base = f"{DATA}/dcp-2.14"
    names = sorted(os.listdir(base))
    r = run("diff", f"{base}/{names[0]}/ckpt", f"{base}/{names[0]}/ckpt", "--values")
    check("diff of a sharded one and itself", r.returncode == 0 and r.stdout == "", r.stdout + r.stderr)


def explain(ck):
    """Every byte of a part comes from one item, and lies inside it."""
    import random
    rnd = random.Random(7)
    for k in jrun("keys", ck)["keys"]:
        if "shape" not in k or not k["shape"]:
            continue
        cut = [sorted(rnd.sample(range(n + 1), 2)) if n else [0, 0] for n in k["shape"]]
        part = "[" + ",".join(f"{a}:{b}" for a, b in cut) + "]"
        for key, want in ((k["key"], k["bytes"]), (k["key"] + part, math.prod(b - a for a, b in cut) * (k["bytes"] // max(1, math.prod(k["shape"]))))):
            e = jrun("explain", ck, key)["reads"][0]
            check(f"explain {key}: all its bytes, once", e["bytes"] == want == sum(i["bytes"] for i in e["items"]), e)
            check(f"explain {key}: inside the items", all(i["payload"][1] - i["payload"][0] >= i["bytes"] and i["payload"][1] <= i["length"] for i in e["items"]), e)
            check(f"explain {key}: the items that info shows", {(i["file"], i["offset"]) for i in e["items"]} <= {(x["file"], x["offset"]) for x in k["shards"]}, e)
    r = run("explain", ck, key)
    check("explain for people", r.returncode == 0 and "of the payload" in r.stdout, r.stdout + r.stderr)


with tempfile.TemporaryDirectory(prefix="sf-interop-") as d:
    sd = values(11)
    with attempt("stats"):
        stats(save(sd, f"{d}/s"), sd)
    with attempt("diff"):
        diff(d, sd)
    with attempt("shardings"):
        shardings(d)
with tempfile.TemporaryDirectory(prefix="sf-interop-") as d, attempt("broken"):
    import shutil
    shutil.copytree(f"{DATA}/dcp-2.14/fsdp4/ckpt", f"{d}/c")
    os.truncate(f"{d}/c/__2_0.distcp", 9000)
    r = run("stats", f"{d}/c", "--json")
    whys = [t for t in json.loads(r.stdout)["tensors"] if "why" in t]
    check("stats of a broken one: the others have theirs", r.returncode == 1 and 0 < len(whys) < len(json.loads(r.stdout)["tensors"]) and "__2_0" in whys[0]["why"], (r.stderr, whys[:2]))
    r = run("stats", f"{d}/c")
    check("stats of a broken one, for people", r.returncode == 1 and "__2_0" in r.stdout and "could not be read" in r.stderr, r.stdout[-300:] + r.stderr)
for case in ("tp_col4", "fsdp4"):
    with attempt("explain"):
        explain(next(p for f in ("dcp-2.14", "dcp-2.6") for p in [f"{DATA}/{f}/{case}/ckpt"] if os.path.exists(p)))
finish()
