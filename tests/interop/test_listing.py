#!/usr/bin/env python3
"""ls, keys and cat as people use them: order, columns on a terminal, values of objects, binary files, live files."""
import pty
import re
import select
import shutil
import struct
import termios
import fcntl

from common import *

need_program()
CKPT, EXP = case("dcp/fsdp4")
T, OBJ = EXP["tensors"], EXP["objects"]
W = tempfile.mkdtemp(prefix="sf-listing-")


def expect(name, r, code, err=None, out=None):
    ok = r.returncode == code and (err is None or err in r.stderr) and (out is None or out in r.stdout)
    return check(name, ok, f"exit {r.returncode}, stdout {str(r.stdout)[-300:]!r}, stderr {str(r.stderr)[-400:]!r}")


def on_tty(*args, columns=80):
    """(exit code, what stdout shows, stderr) with stdout a terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    p = subprocess.Popen([BIN, *map(str, args)], stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE, env=env)
    os.close(slave)
    out = b""
    while True:
        if select.select([master], [], [], 60)[0]:
            try:
                b = os.read(master, 65536)
            except OSError:
                b = b""
            out += b
            if b:
                continue
        break
    os.close(master)
    err = p.communicate(timeout=60)[1].decode()
    return p.returncode, out.decode("utf-8", "surrogateescape").replace("\r\n", "\n"), err


def save(name, tensors):
    d = os.path.join(W, name)
    torch.distributed.checkpoint.save(tensors, checkpoint_id=d, no_dist=True)
    return d


def order():
    ckpt = save("layers", {f"model.layers.{i}.w": torch.ones(2) for i in (10, 2, 0, 11, 1)})
    want = [f"model.layers.{i}.w" for i in (0, 1, 2, 10, 11)]
    check("keys: layers.2 before layers.10", run("keys", ckpt).stdout.splitlines() == want)
    check("keys -l too", [line.split()[-1] for line in run("keys", "-l", ckpt).stdout.splitlines()] == want)
    check("ls too", run("ls", ckpt, "npy").stdout.splitlines() == [k + ".npy" for k in want])
    check("ls -R too", [x for x in run("ls", "-R", ckpt, "state").stdout.splitlines() if re.fullmatch(r"model/layers/\d+/", x)] == [f"model/layers/{i}/" for i in (0, 1, 2, 10, 11)])
    with attempt("stored order in JSON"):
        stored = list(metadata(ckpt).state_dict_metadata)
        check("keys --json is in stored order", [k["key"] for k in jrun("keys", ckpt)["keys"]] == stored != want, stored)
        check("ls --json too", [os.path.basename(e["path"]) for e in jrun("ls", ckpt, "npy")["entries"]] == [k + ".npy" for k in stored])


def ls():
    top = run("ls", CKPT).stdout.splitlines()
    check("ls: no dot names", not any(x.startswith(".") for x in top) and "README" in top, top)
    check("ls -a", ".shardfuse/" in run("ls", "-a", CKPT).stdout.splitlines())
    check("a pipe gets a name a line", run("ls", "-1", CKPT).stdout.splitlines() == top)
    size = os.path.getsize(f"{CKPT}/__0_0.distcp")
    check("ls -l has bytes", re.search(rf"^- +{size} \d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{{4}} __0_0\.distcp$", run("ls", "-l", CKPT, "shards").stdout, re.M))
    check("ls -lh has sizes for people", re.search(r"^- +\d+(\.\d)? KB .* __0_0\.distcp$", run("ls", "-lh", CKPT, "shards").stdout, re.M))
    check("ls -h alone is no --help", run("ls", "-h", CKPT).stdout.splitlines() == top)
    r = run("ls", CKPT, "hf", "README", "state/model/norm")
    check("ls of several paths: files first, directories under their names", r.stdout == "README\n\nhf:\nmodel.safetensors\n\nstate/model/norm:\nweight/\n", r.stdout)
    r = run("ls", CKPT, "nothing", "hf")
    check("ls of several paths, one missing", r.returncode == 1 and "'nothing'" in r.stderr and r.stdout == "hf:\nmodel.safetensors\n", (r.stdout, r.stderr))
    with attempt("ls --json"):
        j = jrun("ls", CKPT, "hf", "README", "-R")
        e = {x["path"]: x for x in j["entries"]}
        check("ls --json", j["schema"] == 1 and set(e) == {"README", "hf/model.safetensors"}, list(e))
        check("ls --json: facts", e["README"]["type"] == "file" and e["README"]["size"] == len(run("cat", CKPT, "README", text=False).stdout)
              and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", e["README"]["mtime"]), e["README"])
        j = jrun("ls", CKPT, "-R", "-a")
        paths = [x["path"] for x in j["entries"]]
        check("ls --json -R: whole paths", ".shardfuse/counters.json" in paths and "state/model/norm/weight/tensor.npy" in paths and len(set(paths)) == len(paths))
        check("ls --json of nothing", jrun("ls", CKPT, "README", "--json")["entries"][0]["path"] == "README")
    ckpt = save("stem", {"model": {"w": torch.ones(1)}, "optimizer": {"x": torch.ones(1)}})
    with attempt("ls --json of a link"):
        links = [x for x in jrun("ls", ckpt)["entries"] if x["type"] == "link"]
        check("ls --json: targets", {x["path"]: x["target"] for x in links}.get("optimizer.pt") == "optim.pt", links)


def columns():
    top = run("ls", CKPT).stdout.splitlines()
    code, out, _ = on_tty("ls", CKPT, columns=60)
    lines = out.splitlines()
    rows = len(lines)
    check("ls on a terminal: columns that fit", code == 0 and 1 < rows < len(top) and max(map(len, lines)) <= 60, out)
    by_column = [x for c in range(60) for x in [line.split()[c] for line in lines if len(line.split()) > c]]
    check("ls on a terminal: down the columns, all of them", by_column == top, by_column)
    check("ls -1 on a terminal", on_tty("ls", "-1", CKPT)[1].splitlines() == top)
    check("ls in a narrow one", on_tty("ls", CKPT, columns=10)[1].splitlines() == top)
    check("ls in a wide one", len(on_tty("ls", CKPT, columns=1000)[1].splitlines()) == 1)
    ckpt = save("wide", {"重み": torch.ones(1), "größe": torch.ones(1), "x\x1b[31m": torch.ones(1), "y" * 9: torch.ones(1)})
    code, out, _ = on_tty("ls", ckpt, "npy", columns=34)
    check("ls on a terminal: escapes are shown", code == 0 and "\x1b" not in out and "x\\x1b[31m.npy" in out, out)
    starts = {sum(2 if c > "\u2e7f" else 1 for c in re.match(r"\S+ +", line)[0]) for line in out.splitlines() if re.match(r"\S+ +\S", line)}
    check("ls on a terminal: columns of wide characters", len(out.splitlines()) == 2 and len(starts) == 1, out)


def values():
    r = run("keys", "-l", CKPT)
    lines = {line.split()[1]: line for line in r.stdout.splitlines() if line.startswith("object")}
    check("keys -l shows values", "train.step = 1245" in lines["train.step"] and "optim.param_groups.0.betas = [0.9, 0.95]" in lines["optim.param_groups.0.betas"], lines)
    check("keys -l: a value for every object", set(lines) == set(OBJ) and all(" = " in line for line in lines.values()), lines)
    check("keys without -l has none", " = " not in run("keys", CKPT).stdout)
    code, out, _ = on_tty("keys", "-l", CKPT, columns=100)
    long = [line for line in out.splitlines() if "param_groups.1.params" in line]
    check("keys -l on a terminal: a value is cut to the line", code == 0 and len(long[0]) == 100 and long[0].endswith("…"), long)
    with attempt("keys -l, hostile and large values"):
        big = save("big", {"model": {"w": torch.ones(4, 4)}, "note": "a\nb\x1b[31m\x9b31mc" + "é" * 400, "blob": b"x" * (3 << 20), "n": 7})
        trace = f"{W}/trace"
        r = run("keys", "-l", big, env={"SF_TRACE": trace})
        got = {line.split(" = ")[0].split()[-1]: line.split(" = ")[1] for line in r.stdout.splitlines() if " = " in line}
        check("keys -l: a value is one line and harmless", r.returncode == 0 and "\x1b" not in r.stdout and "\x9b" not in r.stdout and got["note"].startswith('"a\\nb') and got["note"].endswith("…"), got["note"][:80])
        check("keys -l: a large object says its size", re.fullmatch(r"\(3\.\d MB\)", got["blob"]) and got["n"] == "7", got)
        with open(trace) as f:
            read = sum(json.loads(line)["len"] for line in f if '"len"' in line and ".distcp" in line)
        check("keys -l reads what it shows alone", 0 < read < 1 << 20, read)
    broken = os.path.join(W, "broken")
    shutil.copytree(CKPT, broken)
    os.chmod(broken, 0o755)
    os.unlink(f"{broken}/__3_0.distcp")
    r = run("keys", "-l", broken)
    check("keys -l: what is damaged says so, the rest is shown", r.returncode == 0 and "train.loss = (unreadable: file '__3_0.distcp' is missing)" in r.stdout and "train.step = 1245" in r.stdout, r.stdout[-300:])
    odd = save("odd", {"a\nb": torch.ones(1), "c d": torch.ones(1)})
    check("keys -0", set(run("keys", "-0", odd).stdout.split("\0")) == {"a\nb", "c d", ""}, run("keys", "-0", odd).stdout)


def binary():
    for args in (("cat", CKPT, "model.pt"), ("cat", CKPT, "npy/model.norm.weight.npy"), ("cat", CKPT, "state/model/norm/weight/tensor.raw"), ("cat", CKPT, "shards/__0_0.distcp"),
                 ("get", CKPT, "model.norm.weight", "-O", "-"), ("get", CKPT, "model.norm.weight", "--format", "pt", "-O", "-")):
        code, out, err = on_tty(*args)
        check(f"{' '.join(args[:1] + args[2:])}: binary to a terminal is refused", code == 1 and out == "" and "is binary" in err and "| cat" in err, (code, out[:80], err))
    for args in (("cat", CKPT, "README"), ("cat", CKPT, "info.json"), ("cat", CKPT, "state/train/step/value.json"), ("get", CKPT, "train.step")):
        code, out, err = on_tty(*args)
        check(f"{' '.join(args[:1] + args[2:])}: text is not", code == 0 and out, (code, err))
    check("a pipe gets it", run("cat", CKPT, "model.pt", text=False).stdout[:2] == b"PK")


def live():
    with attempt("cat of live files"):
        j = json.loads(run("cat", CKPT, ".shardfuse/counters.json").stdout)
        check("cat .shardfuse/counters.json", j["schema"] == 1 and j["fetched_requests"]["metadata"] > 0, j)
    expect("cat .shardfuse/metrics", run("cat", CKPT, ".shardfuse/metrics"), 0, out="# TYPE shardfuse_read_requests_total counter")
    check(".shardfuse/ lists what can be read", run("ls", CKPT, ".shardfuse").stdout.split() == ["counters.json", "metrics"])
    for name in run("ls", CKPT, ".shardfuse").stdout.split():
        check(f"cat of each: {name}", run("cat", CKPT, f".shardfuse/{name}").stdout != "")


for part in (order, ls, columns, values, binary, live):
    with attempt(part.__name__):
        part()
shutil.rmtree(W, ignore_errors=True)
finish()
