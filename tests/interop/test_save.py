#!/usr/bin/env python3
"""What a save of several ranks writes: torch's dcp.load, dcp_to_torch_save and the mount read the same bytes; what must not be written is refused on every rank."""
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import tempfile

from common import BIN, attempt, check, finish, jrun, no_fuse, np, run, skip, skip_all, torch, Mount
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

TOOL = os.environ.get("SF_TOOL_SAVE") or os.path.join(os.path.dirname(BIN), "tests/tool_save")
if not os.access(TOOL, os.X_OK):
    skip_all(f"{TOOL} is not built")
TMP = tempfile.mkdtemp(prefix="sf-save-")
DTYPES = ["float32", "bfloat16", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "uint16", "float8_e4m3fn"]


def words(v):
    return ",".join(map(str, v)) or "-"


def expected(key, dtype, shape):
    """The tensor tool_save makes of that key, as bytes."""
    n = int(np.prod(shape, dtype=np.int64)) * torch.empty(0, dtype=getattr(torch, dtype)).element_size()
    seed = sum(key.encode())
    return ((np.arange(n, dtype=np.uint64) * 131 + seed) & 255).astype(np.uint8).tobytes()


def same(t, key, dtype):
    want = expected(key, dtype, t.shape)
    if dtype == "bool":  # copies of torch make 1 of any byte but 0
        return raw(t) == (np.frombuffer(want, np.uint8) != 0).astype(np.uint8).tobytes()
    return raw(t) == want


def raw(t):
    return t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""


def save(name, ranks, lines, *options, expect=0):
    """Returns the target, and each rank's line."""
    target = os.path.join(TMP, name)
    spec = target.replace("/", "_") + ".spec"
    spec = os.path.join(TMP, os.path.basename(spec))
    with open(spec, "w", encoding="utf-8") as f:
        f.writelines("\t".join(map(str, line)) + "\n" for line in lines)
    r = subprocess.run([TOOL, target, str(ranks), spec, *options], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    check(f"{name}: exit status", r.returncode == expect, f"{r.returncode} {r.stdout[-600:]} {r.stderr[-2000:]}")
    return target, r.stdout.splitlines()


def tensor(rank, key, dtype, shape, offset=None, extent=None):
    return ["tensor", rank, key, dtype, words(shape), words(offset if offset is not None else [0] * len(shape)), words(extent if extent is not None else shape)]


def load(target, shapes):
    state = {k: torch.zeros(s, dtype=getattr(torch, d)) for k, (d, s) in shapes.items()}
    dcp.load(state, checkpoint_id=target)
    return state


def flat(tree, prefix=()):
    for k, v in tree.items() if isinstance(tree, dict) else enumerate(tree):
        if isinstance(v, (dict, list)):
            yield from flat(v, prefix + (k,))
        else:
            yield prefix + (k,), v


def check_tensors(name, target, shapes):
    """By dcp.load of each, by shardfuse get."""
    with attempt(f"{name}: dcp.load"):
        for k, t in load(target, shapes).items():
            check(f"{name}: {k} by dcp.load", tuple(t.shape) == tuple(shapes[k][1]) and same(t, k, shapes[k][0]), f"{tuple(t.shape)} {t.dtype}")
    r = run("verify", "--deep", target)
    check(f"{name}: shardfuse verify", r.returncode == 0, r.stdout + r.stderr)
    with attempt(f"{name}: export"):
        out = target + ".pt"
        r = run("export", target, out)
        check(f"{name}: export", r.returncode == 0, r.stderr)
        got = {".".join(map(str, p)): v for p, v in flat(torch.load(out, weights_only=True, mmap=True)) if isinstance(v, torch.Tensor)}
        for k, (d, s) in shapes.items():
            check(f"{name}: {k} by export", k in got and tuple(got[k].shape) == tuple(s) and got[k].dtype == getattr(torch, d) and raw(got[k]) == expected(k, d, s),
                  sorted(got)[:8])


def first_slice():
    lines = [tensor(r, "w", "float32", [8, 5], [2 * r, 0], [2, 5]) for r in range(4)] + [tensor(r, "b", "bfloat16", [7]) for r in range(4)]
    lines += [["json", r, "step", '{"step": 100, "lr": 0.5, "names": ["a", null, true]}'] for r in range(4)]
    target, said = save("first", 4, lines)
    check("first: every rank says ok", sorted(said) == [f"rank {r}: 0 ok" for r in range(4)], said)
    check_tensors("first", target, {"w": ("float32", [8, 5]), "b": ("bfloat16", [7])})
    with attempt("first: the object"):
        state = {"step": None}
        dcp.load(state, checkpoint_id=target)
        check("first: the object by dcp.load", state["step"] == {"step": 100, "lr": 0.5, "names": ["a", None, True]}, state)
        dcp_to_torch_save(target, target + ".torch.pt")
        whole = torch.load(target + ".torch.pt", weights_only=True)
        check("first: dcp_to_torch_save", set(whole) == {"w", "b", "step"} and raw(whole["w"]) == expected("w", "float32", [8, 5]), whole.keys())
    check("first: nothing else is left", sorted(os.listdir(os.path.dirname(target))).count("first-tmp") == 0)
    if no_fuse():
        skip("first: mounted", no_fuse())
        return
    with Mount(target) as m:
        pt = torch.load(os.path.join(m, "model.pt") if os.path.exists(os.path.join(m, "model.pt")) else os.path.join(m, "checkpoint.pt"), weights_only=True)
        check("first: the mount", raw(pt["w"]) == expected("w", "float32", [8, 5]) and raw(pt["b"]) == expected("b", "bfloat16", [7]), pt.keys())


def split(rng, n, most):
    cuts = sorted(rng.sample(range(1, n), min(most - 1, n - 1))) if n > 1 else []
    return list(zip([0, *cuts], [*cuts, n]))


def random_saves(seed, ranks, *options, count=24, name=None):
    """Grids and irregular cuts, each box on one rank or on several, any dtype, nested paths."""
    rng = random.Random(seed)
    name = name or f"random{seed}"
    lines, shapes = [], {}
    for i in range(count):
        key, dtype = f"layer.{i}.weight", rng.choice(DTYPES)
        shape = [rng.randrange(1, 9) for _ in range(rng.randrange(0, 4))]
        boxes = [([], [])]
        for n in shape:
            boxes = [(o + [a], e + [b - a]) for o, e in boxes for a, b in split(rng, n, 3)]
        for o, e in boxes:
            for r in rng.sample(range(ranks), rng.choice([1, 1, 2]) if ranks > 1 else 1):
                lines.append(tensor(r, key, dtype, shape, o, e))
        shapes[key] = (dtype, shape)
    rng.shuffle(lines)
    target, said = save(name, ranks, lines, *options)
    check_tensors(name, target, shapes)
    return target, lines, shapes


def nested():
    lines = [tensor(0, "/model/blocks.0.w", "float32", [4, 4], [0, 0], [2, 4]), tensor(1, "/model/blocks.0.w", "float32", [4, 4], [2, 0], [2, 4]),
             tensor(0, "/optim/state/#0/exp_avg", "float32", [3]), tensor(1, "/optim/state/#1/exp_avg", "float32", [2])]
    lines += [["json", r, "/optim/param_groups/#0/lr", "0.25"] for r in range(2)]
    target, _ = save("nested", 2, lines)
    with attempt("nested"):
        dcp_to_torch_save(target, target + ".pt")
        got = torch.load(target + ".pt", weights_only=True)
        check("nested: the tree", set(got) == {"model", "optim"} and set(got["model"]) == {"blocks.0.w"} and len(got["optim"]["state"]) == 2 and
              got["optim"]["param_groups"] == [{"lr": 0.25}], got)
        check("nested: the bytes", raw(got["model"]["blocks.0.w"]) == expected("model.blocks.0.w", "float32", [4, 4]))


def flat_ranges():
    n, cuts = 5 * 7 * 3, [0, 1, 17, 64, 105]
    lines = [["flat", r, "p", "float32", "5,7,3", cuts[r], cuts[r + 1]] for r in range(4)]
    assert cuts[-1] == n
    target, _ = save("flat", 4, lines)
    check_tensors("flat", target, {"p": ("float32", [5, 7, 3])})


def refused(name, ranks, lines, pattern, *options):
    """One message, the same on all ranks, nothing there."""
    target, said = save(name, ranks, lines, *options, expect=1)
    said = [line for line in said if line.startswith("rank ")]
    # who failed before commit does not say of itself which rank it is
    told = {re.sub(r"^rank \d+: -\d+ (rank \d+: )?", "", line) for line in said if not line.endswith(": 0 ok")}
    check(f"{name}: one message on all ranks", len(told) == 1 and len(said) == ranks - any("absent" in o for o in options), said)
    check(f"{name}: it says what", any(re.search(pattern, line) for line in said), said)
    left = [n for n in os.listdir(TMP) if n == name or n == name + "-tmp"]
    check(f"{name}: nothing is left", left == [], left)


def bad_input():
    half = [tensor(0, "w", "float32", [4, 2], [0, 0], [2, 2]), tensor(1, "w", "float32", [4, 2], [2, 0], [2, 2])]
    refused("hole", 2, half[:1] + [tensor(1, "v", "float32", [1])], r"'?w'?.*", )
    refused("overlap", 2, [half[0], tensor(1, "w", "float32", [4, 2], [1, 0], [3, 2])], r"w.*rank")
    refused("shape", 2, [half[0], tensor(1, "w", "float32", [4, 3], [2, 0], [2, 3])], r"w.*rank")
    refused("dtype", 2, [half[0], tensor(1, "w", "float16", [4, 2], [2, 0], [2, 2])], r"w.*float16|w.*float32")
    refused("kind", 2, [half[0], ["json", 1, "w", "1"]], r"w")
    refused("values", 2, half + [["json", 0, "step", "1"], ["json", 1, "step", "2"]], r"step")
    refused("empty", 2, [], r"(?i)empty|nothing|no item")
    refused("unknown_dtype", 2, [half[0], tensor(1, "w", "float31", [4, 2], [2, 0], [2, 2])], r"rank 1.*float31")
    refused("outside", 2, [half[0], tensor(1, "w", "float32", [4, 2], [3, 0], [2, 2])], r"rank 1.*w")
    refused("json", 2, half + [["json", 1, "x", "{nope"]], r"rank 1")
    refused("aborted", 3, half, r"rank 1.*as asked", "abort=1")
    refused("absent", 3, half, r"rank 2|ranks? .*2", "absent=2", "timeout=1500")
    refused("file_twice", 2, half + [["file", 0, "notes.txt", "a"], ["file", 1, "notes.txt", "b"]], r"notes.txt.*rank 0.*rank 1")
    refused("file_of_ours", 2, half + [["file", 1, "__0_0.distcp", "a"]], r"rank 1.*writes files of that name itself")
    refused("file_escapes", 2, half + [["file", 1, "../out.txt", "a"]], r"rank 1.*\.\./out")


def overwriting():
    lines = [tensor(0, "w", "float32", [3])]
    target, _ = save("again", 1, lines)
    before = sorted(os.listdir(target))
    _, said = save("again", 1, lines, expect=1)
    check("again: refused, and says so", "again" in said[0] and sorted(os.listdir(target)) == before, said)
    save("again", 1, [tensor(0, "v", "float32", [5])], "replace")
    check_tensors("again", target, {"v": ("float32", [5])})
    check("again: what was there is gone", not os.path.exists(target + "-tmp"))
    os.makedirs(os.path.join(TMP, "precious"))
    with open(os.path.join(TMP, "precious", "thesis.tex"), "w") as f:
        f.write("years of work")
    _, said = save("precious", 1, lines, "replace", expect=1)
    check("precious: what is no checkpoint is never cleared", os.path.exists(os.path.join(TMP, "precious", "thesis.tex")), said)
    with open(os.path.join(TMP, "afile"), "w") as f:
        f.write("x")
    _, said = save("afile", 1, lines, "replace", expect=1)
    check("afile: a file is no target", os.path.isfile(os.path.join(TMP, "afile")), said)


def async_saves():
    target, lines, shapes = random_saves(7, 4, "async", count=40)
    # more than the staging memory: it is written while the rest is copied
    big = [tensor(r, "big", "float32", [400, 1000], [100 * r, 0], [100, 1000]) for r in range(4)]
    target, _ = save("big_async", 4, big, "async", "staging=65536")
    check_tensors("big_async", target, {"big": ("float32", [400, 1000])})
    target, said = save("often", 3, [tensor(r, "w", "float32", [6, 3], [2 * r, 0], [2, 3]) for r in range(3)], "repeat=4", "async")
    for i in range(4):
        check_tensors(f"often{i}", f"{target}{i}", {"w": ("float32", [6, 3])})


def second_saves():
    """The same items once more: hashes are exchanged, not plans; what a step changes is there."""
    lines = [tensor(r, f"layer.{i}", "float32", [6, 3], [2 * r, 0], [2, 3]) for r in range(3) for i in range(40)]
    lines += [["json", r, "step", '{"step": @}'] for r in range(3)] + [["json", r, f"rng.{r}", f'"@ of {r}"'] for r in range(3)]
    target, said = save("second", 3, lines, "repeat=3", "files=2", "log")
    plans = [json.loads(line[4:]) for line in said if line.startswith("log ") and '"plan"' in line]
    sent = {t: sum(j["bytes"] for j in plans if j["target"].endswith(f"second{t}")) for t in range(3)}
    check("second: hashes instead of plans", sent[1] < sent[0] / 3 and sent[2] == sent[1], sent)
    for i in range(3):
        check_tensors(f"second{i}", f"{target}{i}", {f"layer.{k}": ("float32", [6, 3]) for k in range(40)})
        state = {"step": None, **{f"rng.{r}": None for r in range(3)}}
        dcp.load(state, checkpoint_id=f"{target}{i}")
        check(f"second{i}: objects", state == {"step": {"step": 10 ** (i + 1)}, **{f"rng.{r}": f"{10 ** (i + 1)} of {r}" for r in range(3)}}, state)


def halves(key):
    return [tensor(r, key, "float32", [8, 5], [4 * r, 0], [4, 5]) for r in range(2)]


def megatron():
    common = '{"iteration": 5, "content_metadata": {"a": 1}}'
    lines = halves("w") + [["json", r, "common", common] for r in range(2)] + [["json", 0, "rng_state", '{"x": [1, 2]}']]
    target, _ = save("megatron", 2, lines, "format=megatron")
    check("megatron: its files", set(os.listdir(target)) == {".metadata", "metadata.json", "common.pt", "__0_0.distcp", "__1_0.distcp"}, os.listdir(target))
    check("megatron: common.pt", torch.load(os.path.join(target, "common.pt"), weights_only=True) == json.loads(common))
    r = run("get", "--common", target)
    check("megatron: get --common", r.returncode == 0 and json.loads(r.stdout)["iteration"] == 5, r.stderr)
    refused("megatron_common", 2, halves("w") + [["json", 0, "common", "{}"]], r"rank 1.*common", "format=megatron")
    try:
        from megatron.core import dist_checkpointing
        from megatron.core.dist_checkpointing import ShardedTensor
        from megatron.core.dist_checkpointing.mapping import ShardedObject
    except Exception as e:
        skip("megatron: megatron-core", f"not installed ({type(e).__name__})")
        return
    with attempt("megatron: megatron-core loads it"):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(random.randrange(20000, 30000)), RANK="0", WORLD_SIZE="1")
        torch.distributed.init_process_group("gloo")
        got = dist_checkpointing.load({"w": ShardedTensor.from_rank_offsets("w", torch.zeros(8, 5)), "rng": ShardedObject("rng_state", None, (1,), (0,))}, target)
        torch.distributed.destroy_process_group()
        check("megatron: megatron-core loads it", raw(got["w"]) == expected("w", "float32", [8, 5]) and got["rng"] == {"x": [1, 2]} and got["iteration"] == 5, got)


def olmo():
    run_dir = os.path.join(TMP, "run")
    os.makedirs(run_dir)
    lines = halves("/model/w") + [["file", r, f"train/rank{r}.pt", "x"] for r in range(2)]
    target, _ = save("run/step7", 2, lines, "format=olmo")
    check("olmo: its files", sorted(os.listdir(target)) == [".metadata.json", "model_and_optim", "train"], os.listdir(target))
    check("olmo: its step", jrun("info", target)["step"] == 7)
    refused("olmo_metadata", 1, [tensor(0, "w", "float32", [2])], r"format_metadata", "format=olmo", "metadata={")
    try:
        from olmo_core.distributed.checkpoint import load_state_dict
        from olmo_core.train.checkpoint import Checkpointer
    except Exception as e:
        skip("olmo: ai2-olmo-core", f"not installed ({type(e).__name__})")
        return
    with attempt("olmo: OLMo-core loads it"):
        check("olmo: it is found", list(Checkpointer.find_checkpoints(run_dir)) == [(7, target)])
        state = {"model": {"w": torch.zeros(8, 5)}}
        load_state_dict(os.path.join(target, "model_and_optim"), state)
        check("olmo: OLMo-core loads it", raw(state["model"]["w"]) == expected("model.w", "float32", [8, 5]))


def manifest():
    target, _ = save("manifest", 2, halves("w"), "manifest", "files=2")
    with open(os.path.join(target, ".shardfuse-manifest.json")) as f:
        told = json.load(f)["files"]
    check("manifest: every shard", set(told) == {n for n in os.listdir(target) if n.endswith(".distcp")}, told)
    for name, is_ in told.items():
        with open(os.path.join(target, name), "rb") as f:
            b = f.read()
        check(f"manifest: {name}", is_ == {"size": len(b), "sha256": hashlib.sha256(b).hexdigest()}, is_)


    check("manifest: verify --deep", run("verify", "--deep", target).returncode == 0)
    # in a gap between items or an archive's name: what no CRC covers
    name = sorted(told)[0]
    with open(os.path.join(target, name), "r+b") as f:
        b = bytearray(f.read())
        at = bytes(b).index(b"PK\x06\x06") + 30
        b[at] ^= 1
        f.seek(0)
        f.write(b)
    r = run("verify", "--deep", target)
    check("manifest: a byte that changed is found", r.returncode == 1 and "sha256" in r.stdout and name in r.stdout, r.stdout + r.stderr)
    os.unlink(os.path.join(target, name))
    r = run("verify", "--deep", target)
    check("manifest: a file that went is named", r.returncode != 0 and name in r.stdout, r.stdout + r.stderr)


def compressed():
    _, _, shapes = random_saves(11, 3, "zstd=3", "files=2", "manifest", name="zstd")
    lines = [tensor(r, "w", "float32", [400, 100], [100 * r, 0], [100, 100]) for r in range(4)] + [["json", r, "step", '{"a": @}'] for r in range(4)]
    target, _ = save("zstd_often", 4, lines, "zstd=3", "repeat=2", "async")
    for i in range(2):
        check_tensors(f"zstd_often{i}", f"{target}{i}", {"w": ("float32", [400, 100])})
    size = sum(os.path.getsize(os.path.join(target + "0", n)) for n in os.listdir(target + "0"))
    check("zstd: it is smaller", size < 400 * 100 * 4 / 2, size)
    refused("zstd_olmo", 1, [tensor(0, "w", "float32", [2])], "zstd", "zstd=3", "format=olmo")


def logs_and_plan():
    lines = [tensor(r, "w", "float32", [8, 5], [4 * r, 0], [4, 5]) for r in range(2)]
    _, said = save("logged", 2, lines, "log")
    logs = [json.loads(line[4:]) for line in said if line.startswith("log ")]
    check("log: phases of both ranks", {(j["phase"], j["rank"]) for j in logs} >= {(p, r) for p in ("plan", "stage", "write", "commit") for r in (0, 1)}, logs)
    _, said = save("planned", 2, lines, "plan")
    plan = json.loads("\n".join(said))
    items = plan["keys"]["w"]["items"]
    check("plan: what each rank would write", [(i["rank"], i["offset"], i["extent"]) for i in items] == [(0, [0, 0], [4, 5]), (1, [4, 0], [4, 5])] and plan["items"] == 2, plan)
    check("plan: nothing is written", not os.path.exists(os.path.join(TMP, "planned")) and not os.path.exists(os.path.join(TMP, "planned-tmp")))
    check("log: outcomes", all(j["outcome"] == "ok" for j in logs), logs)


try:
    first_slice()
    nested()
    for seed, ranks, options in ((1, 1, ()), (2, 2, ("files=3",)), (3, 5, ("balanced",)), (4, 8, ("files=2", "async"))):
        random_saves(seed, ranks, *options)
    flat_ranges()
    bad_input()
    overwriting()
    async_saves()
    second_saves()
    megatron()
    olmo()
    manifest()
    compressed()
    logs_and_plan()
finally:
    shutil.rmtree(TMP, ignore_errors=True)
finish()
