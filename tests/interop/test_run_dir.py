#!/usr/bin/env python3
"""A directory of several checkpoints: every verb says which there are and what to type; typed, it works."""
import re
import shutil

from common import *

need_program()
CKPT, EXP = case("dcp/file_per_item")
LAYOUTS = {  # name: (steps, where each one's files lie)
    "torchtitan": (["step-2", "step-10"], ""), "olmo": (["step0", "step1000"], "model_and_optim"), "trainer": (["checkpoint-500"], ""),
    "megatron names": (["iter_0000005", "iter_0000010"], ""), "deepspeed names": (["global_step5"], ""), "verl names": (["global_step_5", "global_step_40"], ""),
    "composer": (["ep0-ba2", "ep0-ba10"], ""), "olmo's last": (["final"], "")}


def named():
    for layout, (steps, below) in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as d, attempt(layout):
            for s in steps:
                shutil.copytree(CKPT, f"{d}/run/{s}/{below}")
            open(f"{d}/run/log.txt", "w").write("x")
            for args in (["info", "run"], ["info", "run/"], ["ls", "run"], ["keys", "--json", "run"], ["verify", "run"], ["get", "run", "x"], ["export", "run", "x.pt"]):
                os.makedirs(f"{d}/m", exist_ok=True)
                r = run(*args, cwd=d)
                if "without libfuse" in r.stderr:
                    continue
                check(f"{layout}: {' '.join(args[:2])} fails", r.returncode == (2 if args[0] == "verify" else 1), (r.returncode, r.stderr))
                check(f"{layout}: {' '.join(args[:2])} names each", all(s in r.stderr for s in steps) and "not committed" not in r.stderr, r.stderr)
                path = re.search(r"name (?:one of them, as )?'([^']*)'", r.stderr)
                check(f"{layout}: and the newest", path and path[1] == os.path.join(os.path.realpath(d), "run", steps[-1]), r.stderr)
            check(f"{layout}: typed, it works", run("info", path[1]).returncode == 0 and jrun("keys", path[1])["keys"], path[1])


def incomplete():
    with tempfile.TemporaryDirectory() as d:
        for s in ("step1", "step2", "step3"):
            shutil.copytree(CKPT, f"{d}/{s}")
        os.unlink(f"{d}/step3/.metadata")
        r = run("info", d)
        check("a save that did not end is named with its reason", "step1, step2" in r.stderr and re.search(r"not step3: not committed", r.stderr), r.stderr)
        for s in ("step1", "step2"):
            os.unlink(f"{d}/{s}/.metadata")
        r = run("info", d)
        check("none is whole", r.returncode == 1 and "without a checkpoint" in r.stderr and "step3: not committed" in r.stderr, r.stderr)
    with tempfile.TemporaryDirectory() as d:  # a checkpoint of its own, with steps beside its files, is that checkpoint
        shutil.copytree(CKPT, f"{d}/c")
        shutil.copytree(CKPT, f"{d}/c/step5")
        check("a checkpoint with steps beside it is a checkpoint", len(jrun("keys", f"{d}/c")["keys"]) == len(EXP["tensors"]) + len(EXP["objects"]))
        open(f"{d}/step7", "w").write("a file")
        os.symlink("step7", f"{d}/step8")
        os.mkfifo(f"{d}/step9")
        r = run("info", d)
        check("files that are called like steps are none", r.returncode == 1 and "c'" in r.stderr, r.stderr)


def verbs():
    with tempfile.TemporaryDirectory() as d:
        r = run("find", d)
        check("find: nothing", r.returncode == 1 and "no complete checkpoint" in r.stderr and not r.stdout, r.stderr)
        check("latest: nothing", run("latest", d).returncode == 1)
        check("find, latest: not there", run("find", f"{d}/x").returncode == 2 and run("latest", f"{d}/x").returncode == 2)
        for s, mark in (("step9", '{"ephemeral": false, "version": "3.0.0"}'), ("step10", '{"ephemeral": true}'), ("step20", '{"ephemeral": null}'), ("step30", None), ("step40", "x")):
            shutil.copytree(CKPT, f"{d}/{s}")
            if mark:
                open(f"{d}/{s}/.metadata.json", "w").write(mark)
        os.unlink(f"{d}/step40/.metadata")
        r = run("find", d)
        lines = [line.split()[:2] for line in r.stdout.splitlines()]
        check("find", r.returncode == 0 and lines == [["step9", "permanent"], ["step10", "ephemeral"], ["step20", "permanent"], ["step30", "complete"], ["step40", "incomplete"]], r.stdout)
        check("find says why", "not committed" in r.stdout.splitlines()[-1], r.stdout)
        real = os.path.realpath(d)
        for args, want in ((["--ephemeral"], ["step10"]), (["--permanent"], ["step9", "step20", "step30"]), ([], ["step9", "step10", "step20", "step30"])):
            j = jrun("find", d, *args)
            check(f"find --json {args}", [c["name"] for c in j["checkpoints"]] == want and j["checkpoints"][0]["path"] == f"{real}/{want[0]}" and j["latest"] == "step30", j)
            check(f"find {args}", [line.split()[0] for line in run("find", d, *args).stdout.splitlines() if "incomplete" not in line] == want)
        j = jrun("find", d)
        check("find --json: marks, numbers, reasons", [c.get("ephemeral") for c in j["checkpoints"]] == [False, True, False, None] and j["checkpoints"][1]["step"] == 10
              and [c["name"] for c in j["incomplete"]] == ["step40"] and "not committed" in j["incomplete"][0]["why"], j)
        r = run("latest", d)
        check("latest", r.returncode == 0 and r.stdout == f"{real}/step30\n", r.stdout)
        check("RUN/latest is a source", jrun("info", f"{d}/latest")["step"] == 30 and jrun("info", f"{d}/latest/")["step"] == 30 and jrun("info", "latest", cwd=d)["step"] == 30)
        open(f"{d}/latest", "w").write("step20")
        check("as the trainer says", run("latest", d).stdout == f"{real}/step20\n" and jrun("info", f"{d}/latest")["step"] == 20)
        for s in ("step9", "step20", "step30"):
            os.unlink(f"{d}/{s}/.metadata")
        check("find --permanent: none", run("find", d, "--permanent").returncode == 1)
        os.unlink(f"{d}/step10/.metadata")
        r = run("info", f"{d}/latest")
        check("RUN/latest of none says so", r.returncode == 1 and "latest" in r.stderr, r.stderr)


for part in (named, incomplete, verbs):
    with attempt(part.__name__):
        part()
finish()
