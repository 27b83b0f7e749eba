#!/usr/bin/env python3
"""Two builds of shardfuse in turns, or one by several ranks: the tables "before and after" and "Verbs by ranks of a job" of docs/benchmarks.md.

    contrib/bench/bench_before.py seq,mmap,export --before OLD/shardfuse --bin ./shardfuse --rounds 60 --layouts rows4,cols64
    contrib/bench/bench_before.py start --before OLD/shardfuse --bin ./shardfuse
    contrib/bench/bench_before.py ranks --bin ./shardfuse-mpi --rounds 3 --gib 1

Ratios are medians of the rounds' ratios, after over before; behind them the range that holds such a median 95 times of a hundred (resampled)."""
import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import time

arg = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
arg.add_argument("works", help="seq, mmap, export, start, ranks; several with commas")
arg.add_argument("--bin", default="./shardfuse")
arg.add_argument("--before", help="the other build")
arg.add_argument("--rounds", type=int, default=15)
arg.add_argument("--gib", type=float, default=0.5)
arg.add_argument("--layouts", default="rows4")
given = arg.parse_args()
sys.argv = ["bench.py", "seq"]  # its options have their defaults here
import bench  # noqa: E402
from bench import Mount, make_ckpt, med, read_mmap, read_seq, run_sampled, timed  # noqa: E402

bench.A.gib = given.gib
OUT = os.path.join(bench.A.data, "out")


def resampled(x):
    m = sorted(med([random.choice(x) for _ in x]) for _ in range(400))
    return f"{m[10]:.2f} to {m[389]:.2f}"


def row(work, layout, unit, before, after, cpu, faster):
    q = [a / b if faster else b / a for a, b in zip(after, before)]
    print(f"| {work}, {layout} | {med(before):.4g} {unit} | {med(after):.4g} {unit} | {med(q):.2f} | {resampled(q)} | CPU {med(cpu[0]):.2f} and {med(cpu[1]):.2f} |", flush=True)


def in_turns(do):
    """do(which) -> (number, CPU seconds), for 0 before and 1 after; the first round is thrown away."""
    number, cpu = ([], []), ([], [])
    for i in range(given.rounds + 1):
        for which in (0, 1) if i % 2 else (1, 0):
            n, c = do(which)
            if i:
                number[which].append(n)
                cpu[which].append(c)
    return (*number, cpu)


def mounts(work, read, layout):
    both = [Mount([b], make_ckpt(layout)) for b in (given.before, given.bin)]
    with both[0] as a, both[1] as b:
        for m in (a, b):
            m.file = m.dir + "/model.safetensors"
        row(work, layout, "GB/s", *in_turns(lambda which: timed((a, b)[which], read)), True)


def export(layout, suffix):
    def do(which):
        if os.path.exists(OUT + suffix):
            os.unlink(OUT + suffix)
        return run_sampled([(given.before, given.bin)[which], "export", make_ckpt(layout), OUT + suffix])[:2]
    row(f"export {suffix}", layout, "s", *in_turns(do), False)


def start():
    def do(which):
        began = time.perf_counter()
        subprocess.run([(given.before, given.bin)[which], "--version"], stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - began, 0
    row("start", "--version", "s", *in_turns(do), False)


def ranks():
    ckpt = make_ckpt("rows64")
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    for verb in ("verify", "reshard", "export"):
        target = {"verify": [], "reshard": [OUT], "export": [OUT, "--format", "hf", "--max-shard-size", "32M", "-j", "1"]}[verb]
        cells = []
        for n in (1, 2, 4, 8):
            took = []
            for _ in range(given.rounds):
                shutil.rmtree(OUT, ignore_errors=True)
                began = time.perf_counter()
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run(["mpirun", "--oversubscribe", "-n", str(n), given.bin, verb, ckpt, *target, "--memory", "256M", "-q"], env=env, capture_output=True, check=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                took.append((time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
            cells.append(f"{med([t for t, _ in took]):.2f} s (CPU {med([c for _, c in took]):.2f})")
        print(f"| {verb} | " + " | ".join(cells) + " |", flush=True)
    shutil.rmtree(OUT, ignore_errors=True)


os.makedirs(bench.A.data, exist_ok=True)
for work in given.works.split(","):
    if work == "ranks":
        ranks()
    elif not given.before:
        sys.exit(f"{work}: --before OTHER is missing")
    elif work == "start":
        start()
    for layout in given.layouts.split(",") if work in ("seq", "mmap", "export") else ():
        if work == "export":
            export(layout, ".pt")
            export(layout, ".safetensors")
        else:
            mounts(work, {"seq": read_seq, "mmap": read_mmap}[work], layout)
