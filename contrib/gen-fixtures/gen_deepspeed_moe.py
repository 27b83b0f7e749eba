"""A DeepSpeed checkpoint of experts on CPU: ZeRO-2, 4 ranks, 4 experts on 2 expert-parallel ranks.

    python gen_deepspeed_moe.py OUT        # OUT/ckpt/global_step2 and OUT/expect.json, from the live parameters of all ranks
"""
import json
import os
import re
import subprocess
import sys

from gen_deepspeed import sha

os.environ.update(DS_ACCELERATOR="cpu", DS_BUILD_OPS="0", CUDA_VISIBLE_DEVICES="", USE_LIBUV="0", OMP_NUM_THREADS="1")
WORLD, EP, EXPERTS = 4, 2, 4


def rank_main(rank, out):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank), LOCAL_SIZE=str(WORLD), MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    import torch
    import torch.distributed as dist
    import deepspeed
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, init_method=f"file://{out}/meet", rank=rank, world_size=WORLD)
    from deepspeed.moe.layer import MoE
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer as split
    torch.manual_seed(3)

    class Expert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(6, 6)

        def forward(self, x):
            return self.fc(x)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(5, 6)
            self.moe = MoE(6, Expert(), num_experts=EXPERTS, ep_size=EP, k=1)
            self.b = torch.nn.Linear(6, 3)

        def forward(self, x):
            return self.b(self.moe(self.a(x))[0])

    model = Net()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "experts" in name:
                p.add_((rank % EP) * 10)
    opt = torch.optim.AdamW(split({"params": list(model.parameters()), "name": "all"}), lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=opt, config={"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True,
                                                                          "zero_optimization": {"stage": 2}})
    for _ in range(2):
        engine.backward(engine(torch.randn(8, 5)).pow(2).mean())
        engine.step()
    engine.save_checkpoint(out + "/ckpt", tag="global_step2")
    live = {}
    for name, p in engine.module.named_parameters():
        m = re.search(r"(?<=deepspeed_experts\.)\d+", name)
        if m:
            name = name[:m.start()] + str(rank % EP * (EXPERTS // EP) + int(m[0])) + name[m.end():]
        live[name] = sha(p)
    json.dump(live, open(f"{out}/live{rank}", "w"))
    dist.barrier()


def main():
    if sys.argv[1] == "--rank":
        return rank_main(int(sys.argv[2]), sys.argv[3])
    out = os.path.abspath(sys.argv[1])
    os.makedirs(out, exist_ok=True)
    ps = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank", str(r), out], stdout=subprocess.DEVNULL) for r in range(WORLD)]
    if any([p.wait() for p in ps]):
        sys.exit("a rank failed")
    live = {}
    for r in range(WORLD):
        for k, v in json.load(open(f"{out}/live{r}")).items():
            assert live.setdefault(k, v) == v, k
        os.remove(f"{out}/live{r}")
    for f in ("meet", "ckpt/zero_to_fp32.py", "ckpt/zero_to_torch.py", "ckpt/latest"):
        if os.path.exists(f"{out}/{f}"):
            os.remove(f"{out}/{f}")
    json.dump({"world": WORLD, "stage": 2, "main": "global_step2", "tensors": live, "module": live, "optim": {}, "objects": {}}, open(out + "/expect.json", "w"), indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
