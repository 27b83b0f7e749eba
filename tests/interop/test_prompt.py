#!/usr/bin/env python3
"""What people and their scripts are told at the prompt: damage, counts, times, suggestions, --help."""
import re
import shutil

from common import *

need_program()
CKPT, EXP = case("dcp/fsdp4")
T, OBJ = EXP["tensors"], EXP["objects"]
W = tempfile.mkdtemp(prefix="sf-prompt-")


def expect(name, r, code, err=None, out=None):
    ok = r.returncode == code and (err is None or err in r.stderr) and (out is None or out in r.stdout)
    return check(name, ok, f"exit {r.returncode}, stdout {str(r.stdout)[-300:]!r}, stderr {str(r.stderr)[-400:]!r}")


def copy(ckpt, name):
    """A copy of a fixture that may be broken."""
    d = os.path.join(W, name)
    shutil.copytree(ckpt, d)
    for f in [d, *(os.path.join(d, n) for n in os.listdir(d))]:
        os.chmod(f, 0o755)
    return d


def holders(ckpt):
    """file -> the tensors and the objects that have an item in it."""
    held = {}
    for t in jrun("keys", ckpt)["keys"]:
        for s in t["shards"]:
            if 0 in s.get("extent", []):
                continue  # nobody reads it
            held.setdefault(s["file"], (set(), set()))[bool(t.get("object"))].add(t["key"])
    return held


def damage():
    held = holders(CKPT)
    ckpt = copy(CKPT, "damaged")
    size = os.path.getsize(f"{ckpt}/__1_0.distcp")
    os.truncate(f"{ckpt}/__1_0.distcp", 3000)
    os.unlink(f"{ckpt}/__3_0.distcp")
    tensors, objects = held["__3_0.distcp"]
    gone = f"__3_0.distcp: missing; {len(tensors)} tensors incomplete, {len(objects)} objects unreadable, in model, optim and train"
    r = run("verify", ckpt)
    head = r.stdout.split("\n\n")[0].splitlines()
    check("verify: a line per file and cause first", r.returncode == 1 and len(head) == 2 and head[1] == gone, head)
    check("verify: both numbers of a truncated file", re.match(r"__1_0\.distcp: 3,000 of \d\d,\d{3} bytes; \d+ tensors incomplete", head[0])
          and int(head[0].split()[3].replace(",", "")) <= size, head)
    each = r.stdout.split("\n\n")[1].splitlines()
    check("verify: then each with its key", all(any(f"missing-file: {k}: " in line for line in each) for k in tensors | objects), each[:5])
    with attempt("verify --json of damage"):
        r = run("verify", ckpt, "--json")
        j = json.loads(r.stdout)
        d = {x["file"]: x for x in j["damage"]}
        check("verify --json: damage folded", (d["__3_0.distcp"]["tensors"], d["__3_0.distcp"]["objects"], d["__3_0.distcp"]["groups"])
              == (len(tensors), len(objects), ["model", "optim", "train"]), j["damage"])
        keys = {x["key"] for x in j["defects"] if x["code"] == "missing-file"} - {None}
        check("verify --json: every defect with its key", keys == tensors | objects and not j["ok"], sorted(keys)[:5])
    r = run("info", ckpt)
    lines = r.stdout.split("warnings\n")[1].split("views ")[0].splitlines()
    check("info: damage is folded", r.returncode == 0 and lines == ["  " + line for line in head], lines)
    with attempt("info --json of damage"):
        j = jrun("info", ckpt)
        check("info --json: damage folded, warnings with keys", len(j["damage"]) == 2 and {w["key"] for w in j["warnings"]} >= tensors, j["damage"])
    only = run("verify", ckpt, "--key", "model.norm")
    check("verify --key looks at what is shown", only.returncode == 1 and "optim" not in only.stdout and "1 tensor, 0 objects" in only.stdout, only.stdout)
    # forty files of one tensor each: ten lines
    ckpt = os.path.join(W, "many")
    os.makedirs(ckpt)
    from torch.distributed.checkpoint.filesystem import FileSystemWriter
    torch.distributed.checkpoint.save({f"m.w{i}": torch.ones(3) for i in range(40)}, storage_writer=FileSystemWriter(ckpt, single_file_per_rank=False), no_dist=True)
    for f in os.listdir(ckpt):
        if f.endswith(".distcp"):
            os.unlink(os.path.join(ckpt, f))
    lines = run("info", ckpt).stdout.split("warnings\n")[1].split("views ")[0].splitlines()
    check("info: ten lines of damage at most", len(lines) == 10 and lines[-1] == "  31 more of this kind (shardfuse verify lists all)", lines)


def counts():
    with attempt("verify --json counts"):
        j = jrun("verify", CKPT)
        check("verify --json counts what it checked", (j["tensors"], j["objects"], j["files"], j["ok"]) == (len(T), len(OBJ), 4, True), j)
        j = jrun("verify", CKPT, "--deep")
        check("verify --deep --json counts what it read", (j["tensors"], j["objects"]) == (len(T), len(OBJ)) and j["bytes_read"] > 0, j)
    r = run("verify", CKPT, "--key", "model.norm.weight")
    check("1 tensor", r.stdout == "1 tensor, 0 objects, 4 files: ok\n", r.stdout)
    with open(f"{W}/expected", "w") as f:
        f.write("model.norm.weight\tint64\t[14]\nmodel.tok_embeddings.weight\tbfloat16\t[1, 2]\ntrain.step\tint64\n")
    with attempt("verify --expect --json mismatched"):
        r = run("verify", CKPT, "--expect", f"{W}/expected", "--json")
        check("mismatched is key, expected, found", json.loads(r.stdout)["mismatched"] == [
            {"key": "model.norm.weight", "expected": "int64 [14]", "found": "float32 [13]"},
            {"key": "model.tok_embeddings.weight", "expected": "[1, 2]", "found": "[37, 13]"},
            {"key": "train.step", "expected": "int64", "found": "object"}], r.stdout[-500:])
    r = run("verify", CKPT, "--expect", f"{W}/expected")
    check("mismatched as text", r.returncode == 1 and "mismatched: model.norm.weight: expected int64 [14], found float32 [13]\n" in r.stdout, r.stdout)


def times():
    ckpt = copy(CKPT, "timed")
    os.utime(f"{ckpt}/.metadata", (1700000000, 1700000000))
    out = run("info", ckpt, env={"TZ": "Asia/Kolkata"}).stdout
    check("times carry a zone", re.search(r"^committed +2023-11-15 03:43:20 \+0530$", out, re.M), out[:300])
    with attempt("committed in JSON"):
        check("the JSON's time is UTC", jrun("info", ckpt, env={"TZ": "Asia/Kolkata"})["committed"] == "2023-11-14T22:13:20Z")


def did_you_mean():
    for typed, meant in (("infoo", "info"), ("unmount", "umount"), ("exprt", "export"), ("hlep", "help"), ("lss", "ls")):
        expect(f"verb {typed}", run(typed, CKPT), 2, err=f"did you mean {meant}?")
    expect("help of a misspelt verb", run("help", "verfy"), 2, err="did you mean verify?")
    expect("a verb like no other", run("zzzzzz", CKPT), 2, err="shardfuse --help lists the verbs")
    for verb in ("info", "keys", "get"):
        expect(f"{verb}: keys that end in it", run(verb, CKPT, "layers.0"), 1, err="2 keys end in 'layers.0': 'model.layers.0', 'optim.state.layers.0'")
        expect(f"{verb}: the nearest", run(verb, CKPT, "model.norm.wieght"), 1, err="did you mean 'model.norm.weight'?")
        expect(f"{verb}: of a glob", run(verb, CKPT, "modle.*"), 1, err="did you mean 'model.*'?")
        expect(f"{verb}: a path of the tree", run(verb, CKPT, "state/model/norm"), 1, err="did you mean 'model.norm'?")
    for option in ("--key", "--ignore"):
        expect(f"{option} gets one too", run("keys", CKPT, option, "modle"), 1, err=f"{option} 'modle' matches no key: did you mean 'model'?")
    expect("--map that matches nothing", run("keys", CKPT, "--map", "nope=foo"), 1, err="--map 'nope=foo' matches no key")
    expect("--map, nearly", run("keys", CKPT, "--map", "model.nrom=foo"), 1, err="did you mean 'model.norm'?")
    expect("--map of what an earlier one took matches", run("keys", CKPT, "--map", "model=m", "--map", "model.norm=x"), 0, out="m.norm.weight")
    expect("--map of what is not shown matches", run("keys", CKPT, "--key", "optim", "--map", "model=m"), 0)
    with open(f"{W}/rules", "w") as f:
        f.write("nope\tfoo\nmodel.norm\tn\n")
    expect("--map @FILE needs one rule that matches", run("keys", CKPT, "--map", f"@{W}/rules"), 0, out="n.weight")
    with open(f"{W}/rules", "w") as f:
        f.write("nope\tfoo\nnothing\tn\n")
    expect("--map @FILE without", run("keys", CKPT, "--map", f"@{W}/rules"), 1, err="none of its 2 rules matches a key")
    expect("--hf-map that matches nothing", run("ls", CKPT, "hf", "--hf-map", "norm.wieght=x"), 1, err="did you mean 'norm.weight'?")


VERBS = [v for v in "mount umount status info keys ls cat get export verify doctor".split() if "ot in this build" not in run(v, "--help").stdout]


def help_texts():
    for verb in VERBS:
        short, full = run(verb, "--help").stdout, run(verb, "--help-all").stdout
        check(f"{verb} --help ends with one newline", short.endswith("\n") and not short.endswith("\n\n") and full.endswith("\n"), repr(short[-40:]))
        check(f"{verb} --help: nothing this version cannot do", "remote" not in full, full)
        body = full.split("\n\n", 1)[1]
        check(f"{verb} --help: every line is indented or a heading", all(line.startswith("  ") or not line or line[0].isalpha() or line.startswith("shardfuse ") for line in body.splitlines()), body)
        starts = {len(m.group(1)) for m in re.finditer(r"^(  (?:-., |    )--\S+(?: \S+)?  +)\S", full, re.M)}
        check(f"{verb} --help: one column", len(starts) <= 1, sorted(starts))
        example = full.split("\nexample:\n")[1].splitlines()
        check(f"{verb} --help: examples are indented", example and all(re.match(r"  \S", line) for line in example), example)
    short, full = run("cat", "--help").stdout, run("cat", "--help-all").stdout
    check("--help has the verb's own options, --help-all those of all", "--dtype" not in short and "--memory" not in short and "--help-all" in short
          and "--dtype" in full and "--memory" in full, short)
    check("own options come first", run("get", "--help-all").stdout.index("--format") < run("get", "--help-all").stdout.index("--dtype"))
    expect("--help-all alone", run("--help-all"), 0, out="verbs:")
    r = run("mount", CKPT, W, "-o", "refresh=x")
    if "without libfuse" not in r.stderr:
        expect("-o refresh wants a number", r, 2, err="'x' is not a number of seconds")


def config():
    def conf(text):
        with open(f"{W}/conf", "w") as f:
            f.write(text)
        return run("ls", CKPT, "--config", f"{W}/conf")
    expect("--config: blanks around the =", conf("  dtype = bf16\nviews=npy : hf\n".replace(" : ", ":")), 0, out="npy/")
    r = conf("views =\tnpy\n")
    check("--config: the value is what is behind", r.returncode == 0 and "npy" in r.stdout and "hf" not in r.stdout, r.stdout)
    expect("--config: a misspelt name", conf("# dtype\ndtpye=bf16\n"), 2, err="line 2: unknown option 'dtpye': did you mean dtype?")
    expect("--config: no other in it", conf("config = /x\n"), 2, err="cannot name another")
    a, b = run("ls", CKPT, "--views", "hf:npy"), run("ls", CKPT, "--views", "hf,npy")
    check("--views takes what -o takes", a.returncode == 0 and a.stdout == b.stdout and "hf" in a.stdout and "pt/" not in a.stdout.split(), (a.stdout, a.stderr))


for part in (damage, counts, times, did_you_mean, help_texts, config):
    with attempt(part.__name__):
        part()
shutil.rmtree(W, ignore_errors=True)
finish()
