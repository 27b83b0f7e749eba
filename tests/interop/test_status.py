#!/usr/bin/env python3
"""status: what live mounts are and have done, as a table and as JSON; dead and stopped ones."""
import re

from common import *

need_fuse()
CKPT, EXP = case("dcp/fsdp4")


def live():
    with Mount(CKPT, "allow_other,quiet", args=("--dtype", "bf16")) as m:
        pid = daemon_of(m)
        for _ in range(2):
            with open(f"{m}/model.pt", "rb") as f:
                size = len(f.read())
        with attempt("status --json"):
            j = {x["mountpoint"]: x for x in jrun("status")["mounts"]}[os.path.realpath(m)]
            check("status --json: pid, options, source", (j["pid"], j["options"], j["answers"], j["state"]) == (pid, "--dtype bf16 -o allow_other,quiet", True, "answers")
                  and j["source"] == os.path.realpath(CKPT), j)
            check("status --json: uptime and reads", 0 <= j["uptime_s"] < 3600 and j["counters"]["read_requests"] > 0 and j["counters"]["read_bytes"] >= size, j)
            c = j["counters"]
            check("status --json: hit rate", abs(j["hit_rate"] - (1 - c["parked"] / c["read_requests"])) < 1e-3, j)
        lines = run("status").stdout.splitlines()
        row = next(line for line in lines if line.startswith(m))
        check("status is a table", re.split("  +", lines[0]) == ["mountpoint", "source", "pid", "uptime", "reads", "hit rate", "options"], lines)
        check("status: a row", re.search(rf"  {pid} +\d+ s +\d+, [\d.]+ KB +[\d.]+ % +--dtype bf16 -o allow_other,quiet$", row), row)
        check("status: columns stand under their heads", all(row[lines[0].index(h) - 1] == " " and row[lines[0].index(h)] != " " for h in ("source", "pid", "reads", "options")), (lines[0], row))
        one = dict(re.split("  +", line, maxsplit=1) for line in run("status", m).stdout.splitlines())
        check("status MOUNTPOINT: a line a fact", one["pid"] == str(pid) and one["source"] == os.path.realpath(CKPT) and re.search(r"metadata 1 \(", one["fetched"]), one)
        os.kill(pid, signal.SIGSTOP)
        try:
            r = run("status", m)
            check("status of a stopped one", r.returncode == 0 and "does not answer" in r.stdout, r.stdout)
        finally:
            os.kill(pid, signal.SIGCONT)
        os.kill(pid, signal.SIGKILL)
        for _ in range(100):
            try:
                os.stat(m + "/README")
                time.sleep(0.05)
            except OSError as e:
                if e.errno == 107:
                    break
        r = run("status")
        check("status of a dead one", r.returncode == 0 and re.search(rf"^{re.escape(m)} .*its daemon is dead", r.stdout, re.M), r.stdout)
        with attempt("status --json of a dead one"):
            j = {x["mountpoint"]: x for x in jrun("status")["mounts"]}[os.path.realpath(m)]
            check("status --json of a dead one", (j["answers"], j["state"], j["counters"]) == (False, "dead", None), j)
    r = run("status", "/")
    check("status of what is no mount", r.returncode == 1 and "no shardfuse mount there" in r.stderr, r.stderr)


def others():
    if os.geteuid() != 0:
        return skip("another user's mount", "not root")
    with Mount(CKPT) as m, tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        program = f"{d}/shardfuse"
        with open(BIN, "rb") as a, open(program, "wb") as b:
            b.write(a.read())
        os.chmod(program, 0o755)
        r = subprocess.run([program, "status"], capture_output=True, text=True, user=65534, group=65534, extra_groups=[])
        check("status of another user's mount", r.returncode == 0 and re.search(rf"^{re.escape(m)} .*another user's", r.stdout, re.M), r.stdout + r.stderr)


for part in (live, others):
    with attempt(part.__name__):
        part()
finish()
