#!/usr/bin/env python3
"""OLMo-core's step directories: what olmo_core saves now comes out as it was, and as its own unshard_checkpoint makes it, by each strategy."""
import glob

from common import *

need_program()
try:
    from olmo_core.distributed.checkpoint import UnshardStrategy, unshard_checkpoint
except Exception as e:  # its own imports may miss something
    skip_all(f"no ai2-olmo-core for {sys.executable}: {e}")
import gen_olmo


def load(path):
    return torch.load(path, weights_only=False)


def as_unsharded(src, work):
    """model.pt and optim.pt, and the files of the other strategies, which export writes under names of its own."""
    with open(f"{work}/m.pt", "wb") as f:
        f.write(run("cat", src, "model.pt", text=False).stdout)
    model, optim = unshard_checkpoint(f"{src}/model_and_optim", f"{work}/one", quiet=True, optim=os.path.exists(f"{src}/.has_optim"))
    got, want = load(f"{work}/m.pt"), load(model)
    check("model.pt", same(dict(tensors_of(got)), dict(tensors_of(want)), order=False) is None, same(tensors_of(got), tensors_of(want), order=False))
    if optim:
        with open(f"{work}/o.pt", "wb") as f:
            f.write(run("cat", src, "optim.pt", text=False).stdout)
        d = same(load(f"{work}/o.pt"), load(optim), order=False)
        check("optim.pt", d is None, d)
    for name, strategy, args in (("per tensor", UnshardStrategy.one_file_per_tensor(), ["--strategy", "one_file_per_tensor"]),
                                 ("chunks", UnshardStrategy.chunks(200), ["--strategy", "chunks", "--max-shard-size", "200"])):
        unshard_checkpoint(f"{src}/model_and_optim", f"{work}/{name}", quiet=True, optim=False, unshard_strategy=strategy)
        r = run("export", src, f"{work}/x {name}", "--format", "pt", "--model-only", *args)
        check(f"{name}: export", r.returncode == 0, r.stderr)
        want = sorted((load(f) for f in glob.glob(f"{work}/{name}/model/*.pt")), key=lambda v: sorted(v))
        got = sorted((load(f) for f in glob.glob(f"{work}/x {name}/**/*.pt", recursive=True)), key=lambda v: sorted(v))
        strip = [{k.removeprefix("model."): v for k, v in d.items()} for d in got]
        check(f"{name}: as many files", len(strip) == len(want), (len(strip), len(want)))
        check(f"{name}: the same in all", same({k: v for d in strip for k, v in d.items()}, {k: v for d in want for k, v in d.items()}, order=False) is None)


with tempfile.TemporaryDirectory() as top:
    r = subprocess.run([sys.executable, f"{GEN}/gen_olmo.py", top], capture_output=True, text=True, timeout=240)
    check("they are made", r.returncode == 0, r.stderr[-500:])
    for case in gen_olmo.CASES:
        with attempt(case), tempfile.TemporaryDirectory() as work:
            src = f"{top}/{case}/ckpt/step20"
            want = json.load(open(f"{top}/{case}/expect.json"))["tensors"]
            keys = {k["key"]: k for k in jrun("keys", src)["keys"] if "dtype" in k}
            check(f"{case}: its tensors", set(keys) == set(want), sorted(set(keys) ^ set(want))[:6])
            for k, e in want.items():
                r = run("get", src, k, "--format", "raw", "-O", "-", text=False)
                check(f"{case}: {k}", r.returncode == 0 and sha(r.stdout) == e["sha256"] and keys[k]["shape"] == e["shape"], r.stderr)
            if gen_olmo.CASES[case][3]:
                open(f"{src}/.has_optim", "w").close()
            as_unsharded(src, work)
            for rank in range(gen_olmo.CASES[case][0]):
                check(f"{case}: --train-state --rank {rank}", json.loads(run("get", src, "--train-state", "--rank", rank).stdout)["rank"] == rank)
            found = jrun("find", os.path.dirname(src))["checkpoints"]
            check(f"{case}: find", [(c["name"], c["ephemeral"]) for c in found] == [("step20", gen_olmo.CASES[case][2])], found)
finish()
