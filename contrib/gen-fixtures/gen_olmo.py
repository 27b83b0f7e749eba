"""Step directories of OLMo-core: model_and_optim/, train/rankR.pt, .metadata.json.

    python gen_olmo.py OUT [GLOB]          # needs ai2-olmo-core

Each case is OUT/CASE/ckpt/stepN, and OUT/CASE/expect.json with what the values were before they were saved. The ranks are processes joined
by gloo; model and optimizer are saved by olmo_core's save_model_and_optim_state, the rest is laid out as its Checkpointer does.
"""
import fnmatch
import json
import os
import random
import shutil
import sys
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

from fixture import entry

#        name              ranks, flat, ephemeral, optimizer
CASES = {"unflat_2": (2, False, False, True), "flat_3": (3, True, True, True), "flat_1": (1, True, False, True), "model_2": (2, False, False, False)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(13, 6)
        self.blocks = nn.ModuleDict({str(i): nn.Linear(6, 6, bias=i % 2 == 0) for i in range(3)})
        self.norm = nn.LayerNorm(6)
        self.register_buffer("seen", torch.tensor(41))

    def forward(self, x):
        x = self.embeddings(x)
        for b in self.blocks.values():
            x = torch.relu(b(x))
        return self.norm(x)


def trained(seed=3):
    """A model after a few steps; alike in every rank."""
    torch.manual_seed(seed)
    net = Net()
    optim = torch.optim.AdamW([{"params": [p for p in net.parameters() if p.ndim > 1]}, {"params": [p for p in net.parameters() if p.ndim < 2], "weight_decay": 0.0}], lr=0.01)
    for _ in range(3):
        net(torch.randint(0, 13, (5, 7))).square().mean().backward()
        optim.step()
        optim.zero_grad()
    return net, optim


def expected(optim_too):
    net, optim = trained()
    names = {p: n for n, p in net.named_parameters()}
    tensors = {f"model.{n}": entry(t) for n, t in net.state_dict().items()}
    for p, state in (optim.state.items() if optim_too else ()):
        for k, v in state.items():
            tensors[f"optim.state.{names[p]}.{k}"] = entry(v)
    return {"tensors": tensors, "objects": {}}


def work(rank, world, case, out, port):
    from olmo_core.distributed.checkpoint import save_model_and_optim_state
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import distribute_tensor
    ranks, flat, ephemeral, optim_too = CASES[case]
    step = f"{out}/{case}/ckpt/step20"
    net, plain = trained()
    optim = plain
    if world > 1:
        dist.init_process_group("gloo", init_method=f"file://{port}", rank=rank, world_size=world)
        mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
        state = {n: plain.state[p] for n, p in net.named_parameters()}
        fully_shard(net, mesh=mesh)
        params = dict(net.named_parameters())
        optim = torch.optim.AdamW([{"params": [p for p in params.values() if p.ndim > 1]}, {"params": [p for p in params.values() if p.ndim < 2], "weight_decay": 0.0}], lr=0.01)
        for n, p in params.items():
            optim.state[p] = {k: v if v.ndim == 0 else distribute_tensor(v, p.device_mesh, p.placements) for k, v in state[n].items()}
    save_model_and_optim_state(f"{step}/model_and_optim", net, optim if optim_too else None, flatten_optimizer_state=flat, thread_count=2)
    os.makedirs(f"{step}/train", exist_ok=True)
    torch.save({"global_step": 20, "world_size": world, "rng": {"python": random.getstate(), "numpy": np.random.get_state(), "torch": torch.random.get_rng_state()},
                "callbacks": {}, "epoch": 1, "rank": rank}, f"{step}/train/rank{rank}.pt")
    if world > 1:
        dist.barrier()
    if rank == 0:
        import olmo_core.version
        json.dump({"ephemeral": ephemeral, "version": olmo_core.version.VERSION}, open(f"{step}/.metadata.json", "w"))
    if world > 1:
        dist.destroy_process_group()


def make(out, case):
    world = CASES[case][0]
    shutil.rmtree(f"{out}/{case}", ignore_errors=True)
    os.makedirs(f"{out}/{case}/ckpt")
    with tempfile.TemporaryDirectory() as d:
        if world == 1:
            work(0, 1, case, out, None)
        else:
            mp.spawn(work, (world, case, out, f"{d}/port"), nprocs=world)
    with open(f"{out}/{case}/expect.json", "w") as f:
        json.dump({**expected(CASES[case][3]), "main": "step20", "world": world, "torch": torch.__version__}, f, indent=1)


if __name__ == "__main__":
    for name in CASES:
        if fnmatch.fnmatch(name, sys.argv[2] if len(sys.argv) > 2 else "*"):
            make(sys.argv[1], name)
