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


for part in (named, incomplete):
    with attempt(part.__name__):
        part()
finish()
