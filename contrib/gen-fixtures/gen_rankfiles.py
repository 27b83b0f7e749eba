"""Files of one torch.save per rank, as verl and other FSDP trainers leave them.

    python gen_rankfiles.py OUT [GLOB]

Each case is OUT/CASE/ckpt with model_world_size_N_rank_R.pt, optim_…, extra_state_… and OUT/CASE/expect.json. The ranks
are processes joined by gloo. Weights are set before anything is sharded and never trained (lr 0), so what must come out is
known without gathering it; of optimizer states, full_tensor() says it.
"""
import fnmatch
import hashlib
import json
import os
import shutil
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

#       name            ranks  mesh (replicate, fsdp, tp)   what
CASES = {
    "fsdp_3": (3, (1, 3, 1), ""),
    "fsdp_6": (6, (1, 6, 1), ""),          # dimensions shorter than the mesh: empty parts
    "hsdp_2x3": (6, (2, 3, 1), ""),
    "tp_3x2": (6, (1, 3, 2), ""),          # FSDP over TP, uneven in both
    "tp_2x3": (6, (1, 2, 3), ""),
    "tp_4x3": (12, (1, 4, 3), ""),         # 26 rows: torch's own rule for strided shards does not fit what FSDP did
    "hsdp_tp": (8, (2, 2, 2), ""),
    "tied_3": (3, (1, 3, 1), "tied"),
    "groups_2": (2, (1, 2, 1), "groups"),  # two groups of parameters: their numbers are not in the model's order
    "one": (1, (1, 1, 1), ""),
    "plain_2": (2, None, ""),              # DDP: all of it replicated
    "differ_2": (2, (1, 2, 1), "differ"),  # ranks whose plain values are not the same
    "sharded_3": (3, None, "sharded"),     # ShardedTensor, as FSDP's first version has it
}


class Net(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.embed = nn.Embedding(13, 6)
        self.l0 = nn.Linear(6, 26)
        self.l1 = nn.Linear(26, 6, bias=False)
        self.norm = nn.LayerNorm(6)
        self.head = nn.Linear(6, 13, bias=False)
        if tied:
            self.head.weight = self.embed.weight
        self.register_buffer("inv_freq", torch.arange(5.0) / 7)
        self.register_buffer("steps", torch.tensor(41))

    def forward(self, x):
        return self.head(self.norm(self.l1(torch.relu(self.l0(self.embed(x))))))


def sha(t):
    t = t.detach().contiguous()
    return {"dtype": str(t.dtype)[6:], "shape": list(t.shape),
            "sha256": hashlib.sha256(t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b"").hexdigest()}


def fill(model):
    g = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for _, p in model.named_parameters():
            p.copy_(torch.randn(p.shape, generator=g))


def sharded_state(rank, world, values):
    from torch.distributed._shard.sharded_tensor import Shard, init_from_local_shards
    state = {}
    for name, t in values.items():
        if t.ndim == 0:
            state[name] = t
            continue
        parts = list(torch.chunk(t, world))
        at = sum(p.shape[0] for p in parts[:rank])
        mine = [Shard.from_tensor_and_offsets(parts[rank].clone(), [at] + [0] * (t.ndim - 1), rank)] if rank < len(parts) else []
        state[name] = init_from_local_shards(mine, list(t.shape))
    return state


def parallelize(model, mesh_shape):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    rep, fsdp, tp = mesh_shape
    names = [n for n, k in (("rep", rep), ("fsdp", fsdp), ("tp", tp)) if k > 1 or n == "fsdp"]
    sizes = [k for n, k in (("rep", rep), ("fsdp", fsdp), ("tp", tp)) if k > 1 or n == "fsdp"]
    mesh = init_device_mesh("cpu", tuple(sizes), mesh_dim_names=tuple(names))
    if tp > 1:
        parallelize_module(model, mesh["tp"], {"l0": ColwiseParallel(), "l1": RowwiseParallel()})
    dp = mesh[("rep", "fsdp")] if rep > 1 else mesh["fsdp"]
    fully_shard(model, mesh=dp)


def run(rank, world, mesh, what, out, meet):
    dist.init_process_group("gloo", init_method="file://" + meet, rank=rank, world_size=world)
    model = Net(what == "tied")
    fill(model)
    values = {n: t.clone() for n, t in model.state_dict().items()}
    expect = {"tensors": {"model." + n: sha(t) for n, t in values.items()}, "objects": {}, "world": world, "torch": torch.__version__}
    if mesh:
        parallelize(model, mesh)
    if what == "groups":
        decay = [p for p in model.parameters() if p.ndim > 1]
        groups = [{"params": decay, "weight_decay": 0.1}, {"params": [p for p in model.parameters() if p.ndim < 2]}]
    else:
        groups = model.parameters()
    opt = torch.optim.AdamW(groups, lr=0.0, weight_decay=0.0)
    state = model.state_dict()
    if what == "sharded":
        state = sharded_state(rank, world, values)
    else:
        g = torch.Generator().manual_seed(11)
        for p in model.parameters():
            # some gradient; a DTensor's is of its own part
            p.grad = torch.zeros_like(p)
            local = p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad
            with torch.no_grad():
                local.copy_(torch.randn(local.shape, generator=g if not mesh else torch.Generator().manual_seed(100 + (rank % (mesh[1] * mesh[2])) + local.numel())))
        opt.step()
        names = [n for n, p in model.named_parameters()]
        by_id = {id(p): n for n, p in model.named_parameters()}
        order = [by_id[id(p)] for gr in opt.param_groups for p in gr["params"]]
        od = opt.state_dict()
        strided = mesh and mesh[2] > 1
        for i, st in od["state"].items():
            for k, t in st.items():
                if strided and k != "step":
                    continue
                full = t.full_tensor() if hasattr(t, "full_tensor") else t
                expect["tensors"][f"optim.state.{order[i]}.{k}"] = sha(full)
        if what == "differ" and rank:
            od["param_groups"][0]["lr"] = 0.5
        torch.save(od, f"{out}/ckpt/optim_world_size_{world}_rank_{rank}.pt")
        torch.save({"lr_scheduler": {"last_epoch": 3}, "rng": {"cpu": torch.arange(3) + rank}}, f"{out}/ckpt/extra_state_world_size_{world}_rank_{rank}.pt")
        for r in range(world):
            expect["tensors"][f"extra.rank{r}.rng.cpu"] = sha(torch.arange(3) + r)
            expect["objects"][f"extra.rank{r}.lr_scheduler.last_epoch"] = "3"
    if what == "differ":
        state["only"] = torch.full((2 + rank,), float(rank))
        for r in range(2):
            expect["tensors"][f"rank.{r}.model.only"] = sha(torch.full((2 + r,), float(r)))
            expect["objects"][f"rank.{r}.optim.param_groups.0.lr"] = "0.5" if r else "0.0"
    torch.save(state, f"{out}/ckpt/model_world_size_{world}_rank_{rank}.pt")
    if rank == 0:
        with open(f"{out}/ckpt/fsdp_config.json", "w") as f:
            json.dump({"FSDP_version": 1 if what == "sharded" else 2, "world_size": world}, f)
        with open(f"{out}/expect.json", "w") as f:
            json.dump(expect, f, indent=1, sort_keys=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    out, glob = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "*"
    for name, (world, mesh, what) in CASES.items():
        if not fnmatch.fnmatch(name, glob):
            continue
        case = os.path.join(out, name)
        shutil.rmtree(case, ignore_errors=True)
        os.makedirs(case + "/ckpt")
        with tempfile.TemporaryDirectory() as d:
            mp.spawn(run, (world, mesh, what, case, d + "/meet"), nprocs=world)
        print(name, flush=True)


if __name__ == "__main__":
    main()
