#!/usr/bin/env python3
"""slice=tp:N: every rank's file is torch.chunk of the tensors, along the dimension that PyTorch's own metadata says they were saved along."""
import itertools

from common import *
from torch.distributed.checkpoint import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

need_fuse()


def saved_dims(ckpt, stacked=False):
    """By key: the one dimension that several chunks cut (of Megatron's stacked tensors not the layers'), else None."""
    dims = {}
    for key, t in FileSystemReader(ckpt).read_metadata().state_dict_metadata.items():
        if isinstance(t, TensorStorageMetadata):
            cut = {d for c in t.chunks if 0 not in c.sizes for d in range(len(t.size)) if c.sizes[d] != t.size[d]}
            if stacked:  # layers, and experts
                cut -= set(itertools.takewhile(lambda d: all(c.sizes[d] == 1 for c in t.chunks), range(len(t.size) - 1)))
            dims[key] = cut.pop() if len(cut) == 1 else None
    return dims


def compare(name, m, n, whole, dims, cast=lambda t: t):
    """Is each file of slices/ what torch.chunk says?"""
    check(f"{name}: directories", os.listdir(f"{m}/slices") == [f"tp{n}"] and sorted(os.listdir(f"{m}/slices/tp{n}")) == sorted(f"rank{r}" for r in range(n)))
    for r in range(n):
        got = safetensors.torch.load_file(f"{m}/slices/tp{n}/rank{r}/model.safetensors")
        check(f"{name}: rank {r}: keys", set(got) == set(whole), set(got) ^ set(whole))
        for k, t in whole.items():
            want = cast(t if dims[k] is None else t.chunk(n, dims[k])[r])
            check(f"{name}: rank {r}: {k}", k in got and same(got[k], want.contiguous()) is None, (k in got and got[k].shape, want.shape, dims[k]))


def along_saved(of, n, strip, stacked=False):
    """All keys of the model whose dimension N divides; of the others the mount says which, and does not come to be."""
    ckpt, exp = case(of)
    dims = saved_dims(ckpt, stacked)
    ours = {k for k in exp["tensors"] if k.startswith(strip)} - {k for k in exp["tensors"] if k.startswith("optim")}
    odd = [k for k in ours if dims[k] is not None and exp["tensors"][k]["shape"][dims[k]] % n]
    if odd:
        r = run("ls", ckpt, "--slice", f"tp:{n}")
        check(f"{of}: N divides not all", r.returncode == 1 and f"which {n} does not divide" in r.stderr and any(f"'{k}'" in r.stderr for k in odd), r.stderr)
    with Mount(ckpt, f"slice=tp:{n}", *(f"ignore={k}" for k in odd)) as m:
        whole = safetensors.torch.load_file(f"{m}/model.safetensors")
        dims = {k[len(strip):]: d for k, d in dims.items() if k.startswith(strip)}
        check(f"{of}: some are cut", any(dims[k] is not None for k in whole), whole)
        compare(of, m, n, whole, dims)


def ruled():
    """What nobody cut is cut as the name's rule says; the user's rules come first; casts and other names as everywhere."""
    with tempfile.TemporaryDirectory() as d:
        g = torch.Generator().manual_seed(5)
        t = {"layers.0.self_attn.q_proj.weight": (8, 6), "layers.0.self_attn.o_proj.weight": (6, 8), "layers.0.mlp.linear_fc1.weight": (16, 6), "norm.weight": (6,),
             "odd.name": (4, 4), "mine": (2, 3, 8), "scalar": ()}
        t = {k: torch.randn(s, generator=g) for k, s in t.items()}
        safetensors.torch.save_file(t, f"{d}/model.safetensors")
        with open(f"{d}/rules", "w") as f:
            f.write("mine 2\n*linear_fc1.weight gated\n")
        dims = dict.fromkeys(t)
        dims.update({"layers.0.self_attn.q_proj.weight": 0, "layers.0.self_attn.o_proj.weight": 1, "layers.0.mlp.linear_fc1.weight": 0})
        with Mount(f"{d}/model.safetensors", "slice=tp:4", "dtype=bf16", "map=layers=model.layers") as m:
            new = lambda k: k.replace("layers", "model.layers", 1)
            compare("ruled", m, 4, {new(k): v for k, v in t.items()}, {new(k): v for k, v in dims.items()}, lambda x: x.to(torch.bfloat16))
            text = open(f"{m}/README").read()
            check("README says which are whole", re.search(r"no\s+rule knows them.*: 3\n\s+mine\n\s+odd.name\n\s+scalar\n", text) and "norm.weight" in text, text)
            s = json.load(open(f"{m}/info.json"))["slices"]
            check("info.json has them all", s == {"tp": 4, "cut": 3, "replicated": ["mine", "norm.weight", "odd.name", "scalar"]}, s)
        dims["mine"] = 2
        gates, ups = t["layers.0.mlp.linear_fc1.weight"].chunk(2)
        with Mount(f"{d}/model.safetensors", "slice=tp:2", f"join_rules={d}/rules", "views=slices") as m:
            check("views=slices", sorted(os.listdir(m)) == [".shardfuse", "README", "info.json", "slices", "tensors.json"], os.listdir(m))
            for r in range(2):
                got = safetensors.torch.load_file(f"{m}/slices/tp2/rank{r}/model.safetensors")
                both = torch.cat([gates.chunk(2)[r], ups.chunk(2)[r]])
                check(f"gated: rank {r}", torch.equal(got["layers.0.mlp.linear_fc1.weight"], both) and torch.equal(got["mine"], t["mine"].chunk(2, 2)[r].contiguous()))
        r = run("info", f"{d}/model.safetensors", "--slice", "tp:3")
        check("both numbers", r.returncode == 1 and "has 16, which 3 does not divide" in r.stderr, r.stderr)
        with open(f"{d}/rules", "w") as f:
            f.write("mine 3\n")
        r = run("info", f"{d}/model.safetensors", "--slice", "tp:2", "--join-rules", f"{d}/rules")
        check("an axis that is none", r.returncode == 1 and "axis 3" in r.stderr and "3 dimensions" in r.stderr, r.stderr)
        for bad in ("tp", "tp:0", "tp:x", "pp:2", "tp:5000", "tp:-1", "tp:"):
            check(f"slice={bad}", run("info", f"{d}/model.safetensors", "--slice", bad).returncode == 2)


def lazily():
    """One small tensor of one rank costs about its bytes, in a file that has a large one."""
    with tempfile.TemporaryDirectory() as d:
        safetensors.torch.save_file({"a.o_proj.weight": torch.zeros(2048, 4096), "b.q_proj.weight": torch.arange(4096.).reshape(64, 64)}, f"{d}/model.safetensors")
        with Mount(f"{d}/model.safetensors", "slice=tp:4") as m:
            with safe_open(f"{m}/slices/tp4/rank3/model.safetensors", "pt") as f:
                check("the values", torch.equal(f.get_tensor("b.q_proj.weight"), torch.arange(4096.).reshape(64, 64)[48:]))
            n = counters(m)["fetched_bytes"]
            check("and not much more was read", n["tensor"] < 4 << 20, n)


for f, a in ((along_saved, ("dcp/fsdp4", 13, "model.")), (along_saved, ("dcp/columns", 2, "model.")), (along_saved, ("dcp/mesh2x2", 13, "model.")),
             (along_saved, ("dcp-2.14/tp_col4", 13, "model.")), (along_saved, ("megatron/0.19.2-basic", 2, "", True)), (ruled, ()), (lazily, ())):
    with attempt(f"{f.__name__} {a}"):
        f(*a)
finish()
