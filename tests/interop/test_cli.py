#!/usr/bin/env python3
"""Every verb from outside: exit codes, --json, exports of all formats and strategies read back by torch, safetensors, numpy."""
import os
import re
import shutil
import zipfile

from common import *

need_program()
from handmade import HandMade
VERBS = {v for v in ("info keys ls cat get export import verify diff stats find latest warm drop status umount rm-keys doctor bench mount").split()
         if run(v, "--help").returncode == 0}
CKPT, EXP = case("dcp/fsdp4")
T, OBJ = EXP["tensors"], EXP["objects"]


def has(verb):
    if verb in VERBS:
        return True
    skip(verb, "this program has no such verb")
    return False


def expect(name, r, code, err=None, out=None):
    ok = r.returncode == code and (err is None or err in r.stderr) and (out is None or out in r.stdout)
    if code and not r.stderr.strip() and code != 1:
        ok = False
    return check(name, ok, f"exit {r.returncode}, stdout {str(r.stdout)[-200:]!r}, stderr {str(r.stderr)[-300:]!r}")


def usage():
    expect("no arguments is usage", run(), 2)
    expect("an unknown verb is usage or a failed mount", run("no-such-verb-at-all"), 2)
    expect("--help", run("--help"), 0, out="info")
    expect("--version", run("--version"), 0, out="shardfuse")
    for v in ("info", "keys", "ls", "cat", "get", "export", "verify", "doctor"):
        r = run(v, "--help")
        check(f"{v} --help shows an example", r.returncode == 0 and f"shardfuse {v}" in r.stdout and len(r.stdout.splitlines()) > 3, r.stdout[-200:])
        expect(f"{v} --no-such-option is usage", run(v, "--no-such-option", CKPT), 2, err="no-such-option")
    for v in ("info", "keys", "ls", "cat", "get", "export", "verify"):
        expect(f"{v} without SOURCE is usage", run(v), 2)
        args = {"cat": ["README"], "get": ["x"], "export": ["/nonexistent/x.pt"]}.get(v, [])
        r = run(v, "/nonexistent/ckpt", *args)
        check(f"{v} of a missing source fails and names it", r.returncode == (2 if v == "verify" else 1) and "/nonexistent/ckpt" in r.stderr, (r.returncode, r.stderr))
    for args in (("ls", CKPT, "--views", "npy:nonsense"), ("mount", CKPT, "/nonexistent/mnt", "-o", "views=npy:nonsense"), ("mount", CKPT, "/nonexistent/mnt", "--views", "nonsense")):
        r = run(*args)
        if "without libfuse" not in r.stderr:
            expect(f"{args[0]}: a view there is not is usage", r, 2, err="nonsense")
    with tempfile.TemporaryDirectory() as d:
        r = run("info", d)
        check("an empty directory is no checkpoint, and says so", r.returncode == 1 and r.stderr.strip() != "", (r.returncode, r.stderr))
    r = run("info", CKPT, "--complet")
    check("a misspelt option suggests the right one", r.returncode == 2 and "--complete" in r.stderr, r.stderr)


def info():
    with attempt("info --json"):
        j = jrun("info", CKPT)
        check("info: schema, format", j["schema"] == 1 and j["format"] == "dcp", j)
        check("info: fields", {"schema", "format", "writer", "step", "groups", "warnings", "content_metadata"} <= set(j), list(j))
        roles = {g["name"]: g["role"] for g in j["groups"]}
        check("info: roles", roles.get("model") == "model" and roles.get("optim") == "optim" and roles.get("train") == "other", roles)
        n = sum(math.prod(e["shape"]) * getattr(torch, e["dtype"]).itemsize for e in T.values())
        check("info: bytes", sum(g["bytes"] for g in j["groups"]) == n, (j["groups"], n))
        check("info: counts", sum(g["tensors"] for g in j["groups"]) == len(T) and sum(g["objects"] for g in j["groups"]) == len(OBJ), j["groups"])
        check("info: no warnings on a good one", j["warnings"] == [], j["warnings"])
    r = run("info", CKPT)
    check("info: text", r.returncode == 0 and "dcp" in r.stdout and "torch.load" in r.stdout and "weights_only" in r.stdout, r.stdout[-400:])
    check("info: a line for a group that is neither model nor optim", "MNT/train.pt" in r.stdout, r.stdout[-600:])
    for opts in ([], ["--views", "npy"], ["--views", "groups"], ["--key", "train"], ["--ignore", "optim", "--views", "hf:checkpoint"]):
        for what, r in (("info", run("info", CKPT, *opts)), ("README", run("cat", CKPT, "README", *opts))):
            for path in sorted(set(re.findall(r'\("MNT/([^"]+)"', r.stdout))):
                expect(f"{what} {' '.join(opts)}: what it names is there: {path}", run("ls", CKPT, path, *opts), 0)
    # a model without tensors has no hf/ and no .safetensors
    ckpt, _ = case("dcp/nested")
    none = ["--key", "b"]
    for what, r in (("info", run("info", ckpt, *none)), ("README", run("cat", ckpt, "README", *none))):
        named = re.findall(r'\("MNT/([^"]+)"', r.stdout)
        check(f"{what} without tensors names .pt files only", r.returncode == 0 and "checkpoint.pt" in named and all(n.endswith(".pt") for n in named), (r.stdout[-500:], r.stderr[-200:]))
    k = "model.tok_embeddings.weight"
    with attempt("info KEY --json"):
        j = jrun("info", CKPT, k)
        t = j["keys"][0]
        check("info KEY", j["schema"] == 1 and len(j["keys"]) == 1 and t["key"] == k and t["shape"] == [37, 13] and len(t["shards"]) == 4, t)
        rows = sorted((s["origin"][0], s["extent"][0]) for s in t["shards"])
        check("info KEY: shard map", rows == [(0, 10), (10, 10), (20, 10), (30, 7)], rows)
        check("info KEY: files", all(os.path.exists(os.path.join(CKPT, s["file"])) for s in t["shards"]), t["shards"])
    expect("info KEY: text", run("info", CKPT, k), 0, out="37")
    expect("info of a key that is not there", run("info", CKPT, "model.nothing"), 1, err="model.nothing")
    objs, _ = case("dcp/objects300")
    r = run("info", objs)
    check("info says which class keeps weights_only=True from working", r.returncode == 0 and "weights_only" in r.stdout, r.stdout[-300:])


def keys():
    every = run("keys", CKPT)
    check("keys lists all", every.returncode == 0 and set(every.stdout.splitlines()) == set(T) | set(OBJ), every.stdout[:300])
    glob = lambda g: set(run("keys", CKPT, g).stdout.splitlines())
    check("keys 'model.*'", glob("model.*") == {k for k in T if k.startswith("model.")})
    check("keys of a prefix", glob("model.layers.0") == {k for k in T if k.startswith("model.layers.0.")})
    check("* crosses dots", glob("*exp_avg") == {k for k in T if k.endswith("exp_avg")})
    check("/ separates too", glob("model/layers/0/attention") == {k for k in T if k.startswith("model.layers.0.attention.")}, glob("model/layers/0/attention"))
    check("? and [", glob("model.layers.[0-9].attention.w?.weight") == {k for k in T if k.startswith("model.layers.0.attention.w")})
    expect("a prefix ends at a component", run("keys", CKPT, "model.layers.0.att"), 1)
    expect("a glob that matches nothing", run("keys", CKPT, "zzz*"), 1, err="zzz*")
    r = run("keys", CKPT, "-l")
    check("keys -l has dtype and shape", "bfloat16" in r.stdout and "37" in r.stdout, r.stdout[:300])
    with attempt("keys --json"):
        j = jrun("keys", CKPT)
        names = {t["key"] for k in ("tensors", "objects") for t in j.get(k, [])} if "tensors" in j else {t["key"] for t in j["keys"]}
        check("keys --json", names >= set(T) and j["schema"] == 1, list(j))
    names, ne = case("dcp/names")
    with attempt("keys --json of odd names"):
        j = jrun("keys", names)
        check("keys --json of odd names", {t["key"] for t in j.get("tensors", j.get("keys"))} == set(ne["tensors"]))


def info_keys():
    one, many = jrun("info", CKPT, "model.norm.weight"), jrun("info", CKPT, "model.layers.0")
    check("info KEY --json of one key has the shape of several", one["schema"] == 1 and [e["key"] for e in one["keys"]] == ["model.norm.weight"], one)
    check("of several keys it is one document", many["schema"] == 1 and {e["key"] for e in many["keys"]} == {k for k in T if k.startswith("model.layers.0.")}, many)
    with tempfile.TemporaryDirectory() as d:
        src = case("dcp/fsdp4")[0]
        shutil.copytree(src, f"{d}/c")
        r = run("export", f"{d}/c", f"{d}/hf", "--format", "hf")
        check("hf without config.json says so", r.returncode == 0 and "no config.json" in r.stderr, r.stderr)
        check("and not with --quiet", run("export", f"{d}/c", f"{d}/hf2", "--format", "hf", "--quiet").stderr == "")
        os.makedirs(f"{d}/a b")
        shutil.copytree(src, f"{d}/a b/c")
        open(f"{d}/a b/c/config.json", "w").write("{}")
        r = run("ls", "file://" + f"{d}/a b/c".replace(" ", "%20"), "hf")
        check("companions of a file:// URL are found", "config.json" in r.stdout, (r.stdout, r.stderr))
        r = run("cat", case("dcp-2.14/zstd4")[0], "checkpoint.safetensors", "--memory", "1", text=False)
        check("a budget of next to nothing is one", r.returncode == 1 and b"--memory" in r.stderr, r.stderr[-300:])
        h = HandMade(f"{d}/o")
        h.object("bad", 1)
        h.object("step", 5)
        h.commit()
        at = jrun("keys", f"{d}/o")["keys"][0]["shards"][0]
        with open(f"{d}/o/{at['file']}", "r+b") as f:
            f.seek(at["offset"])
            f.write(b"PK\3\4" + bytes(at["length"] - 4))
        r = run("info", f"{d}/o")
        check("info tells the load line without an object that is not in it", "weights_only=True)" in r.stdout and "not known" not in r.stdout, r.stdout)
        r = run("cat", f"{d}/o", "checkpoint.pt", text=False)
        check("what is left out is said", b"left out" in r.stderr, r.stderr)
        r = run("cat", f"{d}/o", "checkpoint.pt", "--quiet", text=False)
        check("--quiet: nothing but errors", r.returncode == 0 and r.stderr == b"", r.stderr)
        # keys of no group's file lie beside those of a group that is called `other`
        torch.distributed.checkpoint.save({"model": {"w": torch.ones(4)}, "other": {"a": torch.zeros(3)}, "step": torch.tensor(7)}, checkpoint_id=f"{d}/g", no_dist=True)
        expect("export chunks", run("export", f"{d}/g", f"{d}/chunks", "--format", "pt", "--strategy", "chunks"), 0)
        got = {}
        for base, _, files in os.walk(f"{d}/chunks"):
            for f in files:
                got.update(torch.load(f"{base}/{f}"))
        check("every key is in a chunk", set(got) == {"model.w", "other.a", "step"}, sorted(got))
    r = run("export", CKPT, "s3://user:secret@bucket/x?sig=topsecret", "--format", "pt")
    check("a target's userinfo and query are never shown", r.returncode == 2 and "secret" not in r.stdout + r.stderr, r.stderr)


def tree():
    r = run("ls", CKPT)
    check("ls", r.returncode == 0 and {"README", "info.json", "tensors.json", "checkpoint.pt", "checkpoint.safetensors", "model.pt", "model.safetensors", "optim.pt", "hf", "state", "npy",
          "pt", "safetensors", "shards"} <= {x.rstrip("/") for x in r.stdout.split()}, r.stdout)
    expect("ls -l", run("ls", "-l", CKPT), 0, out="checkpoint.pt")
    r = run("ls", "-R", CKPT)
    check("ls -R", r.returncode == 0 and "tensor.npy" in r.stdout, r.stdout[:200])
    check("ls PATH", set(x.rstrip("/") for x in run("ls", CKPT, "npy").stdout.split()) == {flat(k) + ".npy" for k in T})
    expect("ls of what is not there", run("ls", CKPT, "nothing/here"), 1, err="nothing")
    k = "model.layers.0.attention.wq.weight"
    r = run("cat", CKPT, f"state/{state_dir(k)}/tensor.raw", text=False)
    check("cat of raw bytes", r.returncode == 0 and sha(r.stdout) == T[k]["sha256"], r.stderr)
    r = run("cat", CKPT, "/npy/" + flat(k) + ".npy", text=False)
    check("cat of npy", sha(np.ascontiguousarray(np.load(io.BytesIO(r.stdout))).tobytes()) == T[k]["sha256"])
    expect("cat of a directory", run("cat", CKPT, "npy"), 1, err="npy")
    expect("cat of what is not there", run("cat", CKPT, "nothing"), 1, err="nothing")
    with attempt("cat info.json is info --json"):
        check("cat info.json is info --json", strict_json(run("cat", CKPT, "info.json").stdout) == jrun("info", CKPT))
    names, ne = case("dcp/names")
    r = run("ls", "-R", names)
    check("ls writes names that are not UTF-8-clean or long without failing", r.returncode == 0, r.stderr)


def get():
    k, k2 = "model.layers.0.attention.wq.weight", "model.norm.weight"
    r = run("get", CKPT, k, "--format", "raw", "-O", "-", text=False)
    check("get raw to stdout", r.returncode == 0 and sha(r.stdout) == T[k]["sha256"], r.stderr)
    with tempfile.TemporaryDirectory() as d:
        for fmt, load in (("npy", lambda p: np.load(p)), ("pt", lambda p: torch.load(p, weights_only=True)), ("raw", lambda p: open(p, "rb").read())):
            with attempt(f"get --format {fmt}"):
                r = run("get", CKPT, k2, k, "--format", fmt, "-O", d)
                check(f"get --format {fmt}", r.returncode == 0, r.stderr)
                v = load(f"{d}/{flat(k2)}.{fmt}")
                check(f"get --format {fmt}: value", sha(raw(v) if fmt == "pt" else v if fmt == "raw" else v.tobytes()) == T[k2]["sha256"])
                check(f"get --format {fmt}: both", os.path.exists(f"{d}/{flat(k)}.{fmt}"), os.listdir(d))
    with attempt("get without -O"), tempfile.TemporaryDirectory() as d:
        r = run("get", os.path.abspath(CKPT), k2, cwd=d)
        check("get without -O writes into the current directory", r.returncode == 0 and len(os.listdir(d)) == 1, (os.listdir(d), r.stderr))
    with attempt("get safetensors"), tempfile.TemporaryDirectory() as d:
        r = run("get", CKPT, k2, k, "--format", "safetensors", "-O", d)
        files = os.listdir(d)
        check("get safetensors: one file", r.returncode == 0 and len(files) == 1, (files, r.stderr))
        with safe_open(f"{d}/{files[0]}", "pt") as f:
            check("get safetensors: both keys", set(f.keys()) == {k, k2} and agrees(f.get_tensor(k), T[k]))
    with attempt("get json"):
        r = run("get", CKPT, "train.step", "--format", "json")
        check("get json goes to stdout", r.returncode == 0 and strict_json(r.stdout) == 1245, (r.stdout, r.stderr))
        r = run("get", CKPT, "optim.param_groups.0.betas", "--format", "json")
        check("get json: a tuple is a list", strict_json(r.stdout) == [0.9, 0.95], r.stdout)
    with attempt("get of an object"), tempfile.TemporaryDirectory() as d:
        r = run("get", os.path.abspath(CKPT), "train.step", cwd=d)
        check("get of an object alone goes to stdout as JSON", r.returncode == 0 and strict_json(r.stdout) == 1245 and not os.listdir(d), (r.stdout, os.listdir(d)))
        r = run("get", os.path.abspath(CKPT), "train.step", k2, "-O", ".", cwd=d)
        check("with -O it is a file", r.returncode == 0 and set(os.listdir(d)) == {"train.step.json", flat(k2) + ".npy"}, (os.listdir(d), r.stderr))
    expect("get of a key that is not there", run("get", CKPT, "nope", "-O", "-"), 1, err="nope")
    with attempt("get of quantized tensors"), tempfile.TemporaryDirectory() as d:
        t = torch.arange(12.0).view(4, 3)
        q = {"a": torch.quantize_per_tensor(t, 0.5, 3, torch.quint8), "b": torch.quantize_per_tensor(t, 0.1, 0, torch.qint32).t(),
             "c": torch.quantize_per_channel(t, torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3), 1, torch.qint8)}
        torch.distributed.checkpoint.save({"model": q}, checkpoint_id=f"{d}/src", no_dist=True)
        expect("verify --deep of quantized tensors", run("verify", "--deep", f"{d}/src"), 0)
        expect("get of quantized tensors", run("get", f"{d}/src", "model", "--format", "npy", "-O", f"{d}/out"), 0)
        for k, v in q.items():
            a = np.load(f"{d}/out/model.{k}.npy")
            check(f"a quantized tensor is its integers: {k}", a.dtype == v.int_repr().numpy().dtype and np.array_equal(a, v.int_repr().numpy()), a)
        r = run("cat", f"{d}/src", "model.pt", text=False)
        check("quantized tensors in .pt are their integers", same(torch.load(io.BytesIO(r.stdout)), {k: v.int_repr() for k, v in q.items()}) is None, r.stderr)
    with attempt("get of a prefix"), tempfile.TemporaryDirectory() as d:
        run("get", CKPT, "model.layers.0", "--format", "npy", "-O", d)
        check("get of a prefix gives all below", set(os.listdir(d)) == {flat(x) + ".npy" for x in T if x.startswith("model.layers.0.")}, os.listdir(d))


def nested_of(ckpt):
    return reference(ckpt)


def export():
    ref = nested_of(CKPT)
    with tempfile.TemporaryDirectory() as d:
        with attempt("export x.pt"):
            r = run("export", CKPT, f"{d}/x.pt")
            expect("export x.pt", r, 0)
            check("export prints what it wrote", "x.pt" in r.stdout + r.stderr, (r.stdout, r.stderr))
            diff = same(torch.load(f"{d}/x.pt", weights_only=True), ref)
            check("export x.pt equals dcp_to_torch_save's", diff is None, diff)
            check("export x.pt: CRCs", zipfile.ZipFile(f"{d}/x.pt").testzip() is None)
            diff = same(torch.load(f"{d}/x.pt", mmap=True), ref)
            check("export x.pt mapped", diff is None, diff)
            before = open(f"{d}/x.pt", "rb").read()
            expect("export does not overwrite", run("export", CKPT, f"{d}/x.pt"), 1, err="x.pt")
            expect("export --force does", run("export", CKPT, f"{d}/x.pt", "--force"), 0)
            check("the same bytes every time", open(f"{d}/x.pt", "rb").read() == before)
            check("no temporary file is left", os.listdir(d) == ["x.pt"], os.listdir(d))
            r = run("export", CKPT, f"{d}/j1.pt", "-j", "1")
            check("-j 1 writes the same bytes", r.returncode == 0 and open(f"{d}/j1.pt", "rb").read() == before, r.stderr)
        with attempt("export x.pt --no-optim"):
            expect("export --no-optim", run("export", CKPT, f"{d}/m.pt", "--no-optim"), 0)
            got = torch.load(f"{d}/m.pt")
            have = set(tensors_of(got))
            check("--no-optim has no optimizer state", not any("exp_avg" in k for k in have) and any(k.endswith("tok_embeddings.weight") for k in have), sorted(have)[:4])
        with attempt("export x.safetensors"):
            expect("export x.safetensors", run("export", CKPT, f"{d}/x.safetensors"), 0)
            with safe_open(f"{d}/x.safetensors", "pt") as f:
                want = {k[6:]: e for k, e in T.items() if k.startswith("model.")}
                check("export x.safetensors is model.safetensors", set(f.keys()) == set(want) and all(agrees(f.get_tensor(k), e) for k, e in want.items()), sorted(f.keys())[:4])
        with attempt("export a directory"):
            expect("export DIR", run("export", CKPT, f"{d}/dir", "--format", "pt"), 0)
            check("a directory has model.pt", "model.pt" in os.listdir(f"{d}/dir"), os.listdir(f"{d}/dir"))
            diff = same(torch.load(f"{d}/dir/model.pt"), ref["model"], order=False)
            check("DIR/model.pt", diff is None, diff)
            expect("export DIR --optim", run("export", CKPT, f"{d}/dir2", "--format", "safetensors", "--optim"), 0)
            check("a directory has model.safetensors and optim.pt", {"model.safetensors", "optim.pt"} <= set(os.listdir(f"{d}/dir2")), os.listdir(f"{d}/dir2"))
            diff = same(torch.load(f"{d}/dir2/optim.pt"), ref["optim"], order=False)
            check("DIR/optim.pt", diff is None, diff)
        with attempt("export hf"):
            src, exp = case("dcp/hf_flat")
            expect("export --format hf", run("export", src, f"{d}/hf", "--format", "hf"), 0)
            check("hf export has config.json and one file", {"config.json", "model.safetensors"} <= set(os.listdir(f"{d}/hf")), os.listdir(f"{d}/hf"))
            expect("export --format hf --max-shard-size", run("export", src, f"{d}/hf2", "--format", "hf", "--max-shard-size", "10KB"), 0)
            idx = json.load(open(f"{d}/hf2/model.safetensors.index.json"))
            have = {}
            for fn in set(idx["weight_map"].values()):
                with safe_open(f"{d}/hf2/{fn}", "pt") as f:
                    have |= {k: f.get_tensor(k) for k in f.keys()}
            check("hf shards hold the model", set(have) == set(exp["tensors"]) == set(idx["weight_map"]) and all(agrees(have[k], e) for k, e in exp["tensors"].items()))
            expect("export --dtype bf16", run("export", src, f"{d}/hf3", "--format", "hf", "--dtype", "bf16"), 0)
            with safe_open(f"{d}/hf3/model.safetensors", "pt") as f:
                check("--dtype bf16 casts", all(raw(f.get_tensor(k)) == raw(have[k].bfloat16()) for k in f.keys()))
        with attempt("export npy"):
            expect("export --format npy", run("export", CKPT, f"{d}/npy", "--format", "npy", "--strategy", "one_file_per_tensor"), 0)
            found = {os.path.relpath(os.path.join(b, f), f"{d}/npy"): os.path.join(b, f) for b, _, fs in os.walk(f"{d}/npy") for f in fs}
            good = sum(sha(np.load(p).tobytes()) in {e["sha256"] for e in T.values()} for n, p in found.items() if n.endswith(".npy"))
            check("npy files hold the model", good >= len([k for k in T if k.startswith("model.")]), list(found)[:4])
        for fmt, load in (("pt", lambda p: torch.load(p)), ("safetensors", None)):
            for strategy in ("one_file_per_tensor", "chunks"):
                with attempt(f"export {fmt} {strategy}"):
                    t = f"{d}/{fmt}-{strategy}"
                    r = run("export", CKPT, t, "--format", fmt, "--strategy", strategy, "--max-shard-size", "2KB")
                    expect(f"export {fmt} {strategy}", r, 0)
                    got, n = {}, 0
                    for b, _, fs in os.walk(t):
                        for f in fs:
                            p = os.path.join(b, f)
                            n += 1
                            if fmt == "pt":
                                v = load(p)
                            else:
                                with safe_open(p, "pt") as s:
                                    v = {k: s.get_tensor(k) for k in s.keys()}
                            check(f"{fmt} {strategy}: a dict", isinstance(v, dict) and (strategy == "chunks" or len(v) == 1), list(v)[:3])
                            got |= v
                            if strategy == "chunks":
                                check(f"{fmt} chunks: name", f.startswith("chunk-") and f.endswith(f".{fmt}"), p)
                    want = {k: e for k, e in T.items() if k.startswith("model.")}
                    bad = [k for k, e in want.items() if not any(agrees(got[x], e) for x in (k, k[6:]) if x in got)]
                    check(f"{fmt} {strategy}: all of the model", not bad and n > 1, (bad[:4], list(got)[:4], n))
        with attempt("--force never replaces what is read"):
            os.mkdir(f"{d}/own")
            run("export", CKPT, f"{d}/own/model.safetensors")
            before = open(f"{d}/own/model.safetensors", "rb").read()
            os.link(f"{d}/own/model.safetensors", f"{d}/hard.safetensors")
            for target in (f"{d}/own/model.safetensors", f"{d}/hard.safetensors"):
                expect(f"export --force over its own source: {os.path.basename(target)}", run("export", f"{d}/own", target, "--force", "--dtype", "fp32"), 1, err="of the checkpoint itself")
                check("and the source is as it was", open(target, "rb").read() == before)
        with attempt("chunks of a cast"):
            expect("chunks of a cast", run("export", CKPT, f"{d}/cast", "--format", "safetensors", "--strategy", "chunks", "--max-shard-size", "4KB", "--dtype", "fp32"), 0)
            for f in os.listdir(f"{d}/cast/model"):
                v = safetensors.torch.load_file(f"{d}/cast/model/{f}")
                size = sum(t.numel() * t.itemsize for t in v.values())
                check("chunks of a cast: max-shard-size is of what is written", size <= 4000 or len(v) == 1, (f, size, len(v)))
        with attempt("export of groups with odd names"):
            groups = {"model": {"w": torch.ones(3)}, "..": {"w": torch.full((2,), 2.0)}, ".": {"w": torch.full((2,), 3.0)}, "other": {"w": torch.full((2,), 4.0)}, "step": 5}
            groups |= {f"g{i}": {"w": torch.full((2,), 10.0 + i)} for i in range(70)}
            torch.distributed.checkpoint.save(groups, checkpoint_id=f"{d}/odd-src", no_dist=True)
            for fmt in ("pt", "safetensors"):
                for strategy in ("one_file_per_tensor", "chunks"):
                    top = f"{d}/odd/{fmt}-{strategy}"
                    os.makedirs(top)
                    expect(f"{fmt} {strategy} of odd groups", run("export", f"{d}/odd-src", f"{top}/t", "--format", fmt, "--strategy", strategy), 0)
                    check(f"{fmt} {strategy}: nothing beside TARGET", os.listdir(top) == ["t"], os.listdir(top))
                    got = {}
                    for b, _, fs in os.walk(f"{top}/t"):
                        for f in fs:
                            p = os.path.join(b, f)
                            got |= torch.load(p) if fmt == "pt" else safetensors.torch.load_file(p)
                    bad = [g for g in groups if g != "step" and f"{g}.w" not in got or g != "step" and not torch.equal(got[f"{g}.w"], groups[g]["w"])]
                    check(f"{fmt} {strategy}: every group is there", not bad and (fmt != "pt" or got["step"] == 5), bad)
        with attempt("export dcp"):
            r = run("export", CKPT, f"{d}/dcp", "--format", "dcp")
            if r.returncode == 0:
                diff = same(reference(f"{d}/dcp"), ref, order=False)
                check("export --format dcp is read by torch", diff is None, diff)
            else:
                check("export --format dcp is refused with a reason", r.returncode in (1, 2) and r.stderr.strip() != "" and not os.path.exists(f"{d}/dcp/.metadata"), r.stderr)
                skip("export --format dcp", r.stderr.strip())
        r = run("export", CKPT, "s3://bucket/x.pt")
        check("export of plain files to a URL is refused, saying so", r.returncode in (1, 2) and "s3://bucket/x.pt" in r.stderr, (r.returncode, r.stderr))
        expect("export of an unknown format is usage", run("export", CKPT, f"{d}/y", "--format", "tar"), 2)
        expect("export below a file", run("export", CKPT, f"{d}/x.pt/y.pt"), 1, err="x.pt")
    full = "/dev/full"
    if os.path.exists(full):
        r = run("cat", CKPT, "checkpoint.pt", text=False)
        p = subprocess.run(f"'{BIN}' cat '{CKPT}' checkpoint.pt > /dev/full", shell=True, capture_output=True, text=True)
        check("cat to a full device fails", p.returncode == 1 and p.stderr.strip() != "" and r.returncode == 0, (p.returncode, p.stderr))
    for name in ("dcp/zstd", "dcp/safetensors", "dcp/columns", "dcp/strides", "dcp/flat", "dcp/objects300", "dcp/tied", "dcp/names", "dcp/dtypes", "dcp/torchtitan", "dcp-2.14/zstd4"):
        if "zstd" in name and lacks_zstd():
            skip(f"export of {name}", "built without libzstd")
            continue
        ckpt, exp = case(name)
        with attempt(f"export of {name}"), tempfile.TemporaryDirectory() as d:
            r = run("export", ckpt, f"{d}/x.pt")
            if not expect(f"export of {name}", r, 0):
                continue
            got = torch.load(f"{d}/x.pt", weights_only=False)
            check(f"export of {name}: CRCs", zipfile.ZipFile(f"{d}/x.pt").testzip() is None)
            ref = reference(ckpt)
            if ref is not None:
                diff = same(got, ref)
                check(f"export of {name}: values", diff is None, diff)
            else:
                ts = tensors_of(got)
                check(f"export of {name}: tensors", all(k in ts and agrees(ts[k], e) for k, e in exp["tensors"].items()), list(ts)[:3])


def choose():
    """--key, --ignore, --map, --hf-map, --model-only, --dtype."""
    listed = lambda *a: set(run("keys", CKPT, *a).stdout.splitlines())
    check("--key", listed("--key", "model.layers") == {k for k in T if k.startswith("model.layers.")}, listed("--key", "model.layers"))
    check("--key twice", listed("--key", "model.norm.weight", "--key", "train") == {"model.norm.weight"} | {k for k in OBJ if k.startswith("train.")})
    check("--ignore", listed("--ignore", "optim") == {k for k in (*T, *OBJ) if not k.startswith("optim.")})
    check("--model-only", listed("--model-only") == {k for k in T if k.startswith("model.")})
    for role in ("model", "optim", "other"):
        of = lambda k: k.split(".")[0] if k.startswith(("model.", "optim.")) else "other"
        want = {k for k in (*T, *OBJ) if of(k) == role}
        check(f"--role {role}", want and listed("--role", role) == want, listed("--role", role) ^ want)
    expect("--role of another word", run("keys", CKPT, "--role", "weights"), 2, err="model, optim, other")
    expect("--role and --model-only", run("keys", CKPT, "--role", "optim", "--model-only"), 2, err="--model-only")
    with tempfile.TemporaryDirectory() as d:
        expect("export --role optim", run("export", CKPT, f"{d}/o.safetensors", "--role", "optim"), 0)
        with safetensors.safe_open(f"{d}/o.safetensors", "pt") as f:
            got = set(f.keys())
        check("has the optimizer alone", got and {k.split(".")[0] for k in got} == {"optim"}, sorted(got)[:3])
    check("--weights-only is its alias", listed("--weights-only") == listed("--model-only"))
    r = run("keys", CKPT, "--key", "zzz")
    expect("--key that matches nothing", r, 1, err="zzz")
    check("--map prefix", "weights.norm.weight" in listed("--map", "model=weights") and "model.norm.weight" not in listed("--map", "model=weights"), listed("--map", "model=weights"))
    check("--map with *", "model.h.0.wq.weight" in listed("--map", "model.layers.*.attention=model.h.*"), sorted(listed("--map", "model.layers.*.attention=model.h.*"))[:5])
    expect("--map to one name", run("keys", CKPT, "--map", "model.norm.weight=a", "--map", "model.output.weight=a"), 1)
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/m.tsv", "w") as f:
            f.write("model.norm.weight\tmodel.final_norm\n")
        with open(f"{d}/m.json", "w") as f:
            json.dump({"model.norm.weight": "model.final_norm"}, f)
        for m in ("m.tsv", "m.json"):
            check(f"--map @{m}", "model.final_norm" in listed("--map", f"@{d}/{m}"), run("keys", CKPT, "--map", f"@{d}/{m}").stderr)
        with attempt("--map in an export"):
            run("export", CKPT, f"{d}/x.safetensors", "--map", "model.norm.weight=model.final_norm")
            with safe_open(f"{d}/x.safetensors", "pt") as f:
                check("--map in an export", "final_norm" in f.keys() and agrees(f.get_tensor("final_norm"), T["model.norm.weight"]), list(f.keys()))
        for rule in ("model=weights", "model=", "model.layers=h", "optim=o.p"):
            with attempt(f"--map {rule}: nested views spell the shown names"):
                shown = {k for k in listed("--map", rule) if k not in OBJ}
                for stem in ("checkpoint", "model", "optim"):
                    pt = run("cat", CKPT, f"{stem}.pt", "--map", rule, text=False).stdout
                    st = run("cat", CKPT, f"{stem}.safetensors", "--map", rule, text=False).stdout
                    nested = set(tensors_of(torch.load(io.BytesIO(pt))))
                    flat_names = set(json.loads(st[8:8 + int.from_bytes(st[:8], "little")])) - {"__metadata__"}
                    check(f"--map {rule}: {stem}.pt and {stem}.safetensors agree", nested == flat_names and (stem != "checkpoint" or nested <= shown), sorted(nested ^ flat_names)[:4])
        with attempt("--hf-map"):
            a = run("cat", CKPT, "hf/model.safetensors", "--hf-map", "layers.*.attention.wq=model.layers.*.self_attn.q_proj", text=False)
            b = run("cat", CKPT, "model.safetensors", "--hf-map", "layers.*.attention.wq=model.layers.*.self_attn.q_proj", text=False)
            n = lambda r: set(json.loads(r.stdout[8:8 + int.from_bytes(r.stdout[:8], "little")]))
            check("--hf-map renames in hf/ alone", "model.layers.0.self_attn.q_proj.weight" in n(a) and "layers.0.attention.wq.weight" in n(b), (sorted(n(a))[:4], a.stderr))
        expect("--hf-map that makes two names one", run("ls", CKPT, "--hf-map", "norm=output"), 1, err="output.weight")
        with attempt("--dtype"):
            r = run("get", CKPT, "model.tok_embeddings.weight", "--dtype", "fp32", "--format", "npy", "-O", "-", text=False)
            a = np.load(io.BytesIO(r.stdout))
            check("--dtype fp32", a.dtype == np.float32, a.dtype)
        r = run("keys", CKPT, "--dtype", "int7")
        check("--dtype of no such name is usage", r.returncode == 2 and "int7" in r.stderr, (r.returncode, r.stderr))


def verify():
    for name, ckpt, exp in cases("dcp*/*"):
        r = run("verify", "--deep", ckpt)
        check(f"verify --deep {name}", r.returncode == 0, r.stdout[-200:] + r.stderr[-300:])
    with attempt("verify --deep of an empty tensor in a file of its own"), tempfile.TemporaryDirectory() as d:
        from torch.distributed.checkpoint.filesystem import FileSystemWriter, SerializationFormat
        writer = FileSystemWriter(d, single_file_per_rank=False, serialization_format=SerializationFormat.SAFETENSORS)
        torch.distributed.checkpoint.save({"model": {"e": torch.zeros(0, 3), "w": torch.ones(2)}}, storage_writer=writer, no_dist=True)
        expect("verify --deep of an empty tensor in a file of its own", run("verify", "--deep", d), 0)
    with attempt("verify --json"):
        j = jrun("verify", CKPT)
        check("verify --json", j["schema"] == 1, j)
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/all", "w") as f:
            f.write("\n".join([*T, *OBJ]) + "\n")
        with open(f"{d}/more", "w") as f:
            f.write("\n".join([*T, *OBJ, "model.extra"]) + "\n")
        with open(f"{d}/shape", "w") as f:
            f.write("model.norm.weight\tfloat32\t[14]\n")
        expect("verify --expect", run("verify", CKPT, "--expect", f"{d}/all"), 0)
        r = run("verify", CKPT, "--expect", f"{d}/more", "--strict", "raise_all")
        check("verify --expect names what is missing", r.returncode == 1 and "model.extra" in r.stdout + r.stderr, (r.returncode, r.stdout[-200:], r.stderr[-200:]))
        r = run("verify", CKPT, "--expect", f"{d}/more")
        check("verify --expect fails for a key that is not stored, as Megatron's load does", r.returncode == 1 and "missing: model.extra" in r.stdout, (r.returncode, r.stdout[-200:]))
        lines = r.stdout.splitlines()
        check("and says no more of the manifest", [x for x in lines if "missing" in x or "mismatched" in x or "[" in x] == ["missing: model.extra"], r.stdout)
        expect("verify --strict ignore_all", run("verify", CKPT, "--expect", f"{d}/more", "--strict", "ignore_all"), 0)
        expect("verify --expect of no file could not tell", run("verify", CKPT, "--expect", f"{d}/none"), 2, out="could not tell")
        expect("verify --strict of no such mode is usage", run("verify", CKPT, "--expect", f"{d}/all", "--strict", "sometimes"), 2)
        with attempt("verify --expect --json"):
            r = run("verify", CKPT, "--expect", f"{d}/more", "--json", "--strict", "raise_all")
            j = json.loads(r.stdout)
            check("verify --json has missing, unexpected, mismatched", j["missing"] == ["model.extra"] and j["unexpected"] == [] and j["mismatched"] == [], j)


def others():
    if has("diff"):
        a, b = case("dcp/fsdp4")[0], case("dcp/app")[0]
        expect("diff of the same", run("diff", a, a), 0)
        r = run("diff", a, b)
        check("diff of two", r.returncode == 1 and "app.model.norm.weight" in r.stdout, r.stdout[:200])
    if has("stats"):
        with attempt("stats --json"):
            j = jrun("stats", case("dcp/hf_flat")[0], "model.norm.weight")
            t = reference(case("dcp/hf_flat")[0])["model.norm.weight"]
            s = (j.get("tensors") or [j])[0]
            check("stats", abs(s["mean"] - t.mean().item()) < 1e-6 and s["min"] == t.min().item(), s)
    if has("find"):
        with tempfile.TemporaryDirectory() as d:
            for n in (10, 9, 200):
                os.symlink(os.path.abspath(CKPT), f"{d}/step{n}")
            os.mkdir(f"{d}/step300")
            r = run("latest", d)
            check("latest", r.returncode == 0 and r.stdout.strip().endswith("step200"), (r.stdout, r.stderr))
            r = run("find", d)
            check("find", r.returncode == 0 and "step9" in r.stdout and "step300" in r.stdout + r.stderr, r.stdout)
    if has("import"):
        with tempfile.TemporaryDirectory() as d:
            torch.save({"a": torch.arange(5), "b": {"c": 1}}, f"{d}/x.pt")
            r = run("import", f"{d}/x.pt", f"{d}/dcp")
            if expect("import", r, 0):
                diff = same(reference(f"{d}/dcp"), torch.load(f"{d}/x.pt"))
                check("import is read by torch", diff is None, diff)
    r = run("doctor")
    check("doctor", r.returncode in (0, 1) and "fuse" in r.stdout.lower(), r.stdout + r.stderr)
    with attempt("doctor where mounting is not allowed"):
        import ctypes
        drop = (24, 21) if os.geteuid() == 0 else (38, 1)  # PR_CAPBSET_DROP of CAP_SYS_ADMIN; PR_SET_NO_NEW_PRIVS
        r = run("doctor", preexec_fn=lambda: ctypes.CDLL(None).prctl(*drop, 0, 0, 0))
        check("doctor where mounting is not allowed", r.returncode == 1 and "missing  right to mount" in r.stdout, r.stdout + r.stderr)
    with attempt("doctor --json"):
        r = run("doctor", "--json")
        check("doctor --json", strict_json(r.stdout)["schema"] == 1, r.stdout[:200])
    r = run("info", "https://user:secret@127.0.0.1:1/ckpt?sig=topsecret")
    check("userinfo and query are never shown", r.returncode != 0 and "secret" not in r.stdout + r.stderr, r.stderr)
    r = run("keys", case("dcp/names")[0])
    check("keys on a pipe is raw or escaped, but works", r.returncode == 0)
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/conf", "w") as f:
            f.write("# shown names\nmap=model=weights\nquiet\n")
        r = run("keys", CKPT, "--config", f"{d}/conf")
        open(f"{d}/self.conf", "w").write(f"config={d}/self.conf\n")
        expect("a config file that includes itself", run("keys", CKPT, "--config", f"{d}/self.conf"), 2, err="line 1")
        check("a config file's lines are options", "weights.norm.weight" in r.stdout, r.stderr)


for part in (usage, info, info_keys, keys, tree, get, export, choose, verify, others):
    with attempt(part.__name__):
        part()
finish()
