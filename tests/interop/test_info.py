#!/usr/bin/env python3
"""`info`: the facts of a checkpoint, values of tensors and slices against torch, damage with its keys."""
import random
import re
import shutil

from common import *

need_program()
from handmade import HandMade, item_bytes


def flat_tensors(ckpt):
    return tensors_of(reference(ckpt))


def close(got, t):
    """Is a value of the JSON that element (0-dim tensor)?"""
    if isinstance(got, dict) and "$int" in got:
        return int(got["$int"]) == t.item()
    if t.dtype.is_complex:
        part = torch.view_as_real(t.to(torch.complex128))
        return isinstance(got, list) and close(got[0], part[0].to(torch.float64)) and close(got[1], part[1].to(torch.float64)) or isinstance(got, list) and all(
            np.float32(float_of(g)) == np.float32(p) or float_of(g) != float_of(g) and p != p for g, p in zip(got, part.tolist()))
    want = t.to(torch.float64).item() if t.dtype.is_floating_point else t.item()
    got = float_of(got) if t.dtype.is_floating_point else got
    if want != want:
        return got != got
    return got == want or t.dtype != torch.float64 and t.dtype.is_floating_point and np.float32(got) == np.float32(want)


def float_of(v):
    return float(v["$float"]) if isinstance(v, dict) else float(v)


def agrees_nested(got, t):
    if t.ndim == 0:
        return close(got, t)
    return isinstance(got, list) and len(got) == len(t) and all(agrees_nested(g, x) for g, x in zip(got, t))


def random_slice(rnd, shape):
    """As text, and as what indexes a tensor."""
    text, index = [], []
    for n in shape[:rnd.randint(0, len(shape))]:
        kind = rnd.choice("irrre")
        if kind == "i" and n:
            i = rnd.randrange(-n, n)
            text.append(str(i))
            index.append(i)
        elif kind == "e":
            text.append(":")
            index.append(slice(None))
        else:
            a, b = rnd.choice([None, rnd.randint(-n - 2, n + 2)]), rnd.choice([None, rnd.randint(-n - 2, n + 2)])
            text.append(f"{'' if a is None else a}:{'' if b is None else b}")
            index.append(slice(a, b))
    return "[" + (", ".join(text) or "...") + "]", tuple(index)


def values():
    """Every dtype and many layouts: random slices as torch has them."""
    rnd = random.Random(int(os.environ.get("SF_TEST_SEED", "7")))
    for name in ("dcp/dtypes", "dcp/strides", "dcp/columns", "dcp/mesh2x2", "dcp/storage_offsets", "dcp/zstd", "dcp/nested"):
        ckpt, exp = case(name)
        have = flat_tensors(ckpt)
        keys = [k for k in exp["tensors"] if k in have and k and not k.startswith("-")]
        check(f"{name}: tensors to compare", len(keys) > 2, list(have)[:5])
        for k in keys:
            t = have[k]
            if "float4" in str(t.dtype) or "e8m0" in str(t.dtype):
                continue  # torch has no .to() for them; test_dtype_text has their values
            for _ in range(2):
                text, index = random_slice(rnd, t.shape)
                with attempt(f"{name}: {k}{text}"):
                    e = jrun("info", ckpt, k + text)["keys"]
                    want = t.resolve_conj().resolve_neg()[index]
                    check(f"{name}: {k}{text} of {t.dtype}{list(t.shape)}", len(e) == 1 and agrees_nested(e[0]["values"], want), (e[0]["values"], want))
    ckpt, _ = case("dcp/fsdp4")
    r = run("info", ckpt, "model.tok_embeddings.weight[:2, :3]")
    rows = re.findall(r"\[+([^\[\]]+)\]", r.stdout.split("\n", 2)[2])
    want = reference(ckpt)["model"]["tok_embeddings.weight"] if "tok_embeddings.weight" in reference(ckpt)["model"] else flat_tensors(ckpt)["model.tok_embeddings.weight"]
    check("values for people, in columns", [[float(x) for x in row.split(",")] for row in rows] == [[float(f"{x:.4g}") for x in row] for row in want[:2, :3].tolist()], r.stdout)
    for key, err in (("model.tok_embeddings.weight[::2]", "steps"), ("model.tok_embeddings.weight[37]", "dimension 0"), ("model.tok_embeddings.weight[0,0,0]", "3 dimensions"),
                     ("train.step[0]", "not a tensor"), ("model.nothing[0]", "no key matches 'model.nothing'")):
        for more in ([], ["--json"]):
            r = run("info", ckpt, key, *more)
            check(f"info {key} {more}", r.returncode == 1 and err in r.stderr and r.stdout == "", (r.stdout, r.stderr))


def keys():
    ckpt, exp = case("dcp/fsdp4")
    r = run("info", ckpt, "train.step")
    check("info of an object: its value, its place", re.fullmatch(r"train\.step\n  = 1245\n  object in __\d_0\.distcp at \d+, \d+ bytes\n", r.stdout), r.stdout)
    r = run("info", ckpt, "optim.param_groups.0.params")
    check("a long value is one line", len(r.stdout.splitlines()) == 3 and '= ["' in r.stdout, r.stdout)
    r = run("info", ckpt, "model.tok_embeddings.weight")
    lines = r.stdout.splitlines()
    head = next(x for x in lines if x.lstrip().startswith("chunk "))
    rows = lines[lines.index(head) + 1:]
    at = [(m.start(), m.end()) for m in re.finditer(r"\S+", head)]
    for row in rows:  # shard, offset, length end where their heads end; origin, extent, file begin where they begin
        ok = all(row[e - 1] != " " and (e == len(row) or row[e] == " ") for e in (at[0][1], at[3][1], at[4][1])) and all(row[b] != " " and row[b - 1] == " " for b, _ in (at[1], at[2], at[5]))
        check("the shard map stands under its heads", ok and len(rows) == 4, (head, row))
    check("and its first values", re.search(r"^  values (-?[\d.e-]+, ){8}…$", r.stdout, re.M), r.stdout)
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(ckpt, f"{d}/c")
        os.unlink(f"{d}/c/__0_0.distcp")
        r = run("info", f"{d}/c", "model.tok_embeddings.weight")
        check("values that cannot be read are said, the rest is shown", r.returncode == 0 and "cannot be read" in r.stdout and "__0_0.distcp (missing)" in r.stdout and "__1_0.distcp" in r.stdout, r.stdout)
        r = run("info", f"{d}/c", "model.tok_embeddings.weight[0]")
        check("a slice that cannot be read is an error", r.returncode == 1 and "__0_0" in r.stderr, (r.stdout, r.stderr))
        h = HandMade(f"{d}/g")  # keys with brackets mean themselves
        for n, k in enumerate(("w[0]", "w0", "x")):
            h.tensor(k, (2,), torch.float32, [((0,), (2,), "__0_0.distcp", item_bytes(torch.tensor([n + 0.5, 9.0])))], path=(k,))
        h.commit()
        check("a key with brackets is a key, and a glob", [e["key"] for e in jrun("info", f"{d}/g", "w[0]")["keys"]] == ["w[0]", "w0"])
        check("a slice of it is one", jrun("info", f"{d}/g", "w[0][0]")["keys"][0]["values"] == 0.5)


def facts():
    with tempfile.TemporaryDirectory() as d, attempt("facts"):
        m = {f"layers.{i}.w": torch.ones(10, 20, dtype=torch.bfloat16) for i in range(12)} | {"embed": torch.ones(100, 20), "pos": torch.arange(3)}
        torch.distributed.checkpoint.save({"model": m, "optim": {"e": torch.zeros(100, 20)}, "one": {"t": torch.ones(1), "o": 5}}, checkpoint_id=f"{d}/c", no_dist=True)
        text = run("info", f"{d}/c").stdout
        line = lambda name: next((x[12:] for x in text.splitlines() if x.startswith(f"{name:12}")), None)
        check("parameters", line("parameters") == "4.40 K" and jrun("info", f"{d}/c")["parameters"] == 12 * 200 + 2003, text)
        check("layers", line("layers") == "12 in model.layers" and jrun("info", f"{d}/c")["layers"] == [{"container": "model.layers", "count": 12}], text)
        check("dtypes with their share", re.fullmatch(r"float32 76\.8 %, bfloat16 23\.0 %, int64 0\.1 %", line("dtypes") or ""), line("dtypes"))
        check("dtypes in JSON", jrun("info", f"{d}/c")["dtypes"][0] == {"dtype": "float32", "bytes": 16004}, jrun("info", f"{d}/c")["dtypes"])
        groups = text.split("groups\n")[1].split("largest")[0].splitlines()
        check("the groups' table has aligned columns", len({x.index(w) + len(w) for x, w in zip(groups, ("tensors", "14", "1", "1"))}) == 1, groups)
        check("the largest tensors of the model, largest first", re.search(r"largest tensors of the model\n  float32 +\[100, 20\] +8\.0 KB  model\.embed\n  bfloat16 ", text), text)
        j = jrun("info", f"{d}/c", "--key", "optim", "--key", "one")
        check("--key holds for groups, and for sums", [(g["name"], g["tensors"], g["objects"], g["elements"]) for g in j["groups"]] == [("optim", 1, 0, 2000), ("one", 1, 1, 1)] and j["parameters"] == 2001, j)
        text = run("info", f"{d}/c", "--key", "one.t").stdout
        check("in text too", re.search(r"^  one +other +1 +0 +4 B  float32$", text, re.M) and "model" not in text.split("groups")[1].split("views")[0], text)


def damage():
    with tempfile.TemporaryDirectory() as d, attempt("damage"):
        h = HandMade(f"{d}/c")
        for n in range(1500):
            h.tensor(f"model.t{n}", (1,), torch.float32, [((0,), (1,), f"__{n % 30}_0.distcp", item_bytes(torch.ones(1)))])
        h.commit()
        for n in range(15):
            os.unlink(f"{d}/c/__{n}_0.distcp")
        text = run("info", f"{d}/c").stdout
        lines = text.split("warnings\n")[1].split("views")[0].splitlines()
        check("damage comes behind the facts, ten lines at most", len(lines) == 10 and text.index("groups") < text.index("warnings") and "6 more" in lines[-1], lines)
        check("a line has the file, what it lacks, the groups", re.fullmatch(r"  __\d+_0\.distcp: missing; 50 tensors incomplete", lines[0]), lines[0])
        j = jrun("info", f"{d}/c")
        keys = [w["key"] for w in j["warnings"] if w["key"]]
        check("info.json has each key", sorted(keys) == sorted(f"model.t{n}" for n in range(1500) if n % 30 < 15), (len(keys), keys[:3]))
        readme = run("cat", f"{d}/c", "README").stdout
        check("README has the same lines", readme.split("Damage\n")[1].splitlines()[:10] == ["    " + x.strip() for x in lines], readme[-900:])


for part in (values, keys, facts, damage):
    with attempt(part.__name__):
        part()
finish()
