"""DeepSpeed checkpoints on CPU, and what zero_to_fp32 and the live weights say of them.

    pip install torch==2.13.0 deepspeed        # DS_BUILD_OPS=0
    python gen_deepspeed.py OUT [GLOB]

OUT/CASE/ckpt/global_step2 and OUT/CASE/expect.json: tensors (zero_to_fp32's answer; without ZeRO the module as float32), module (the
live weights, gathered), objects. The ranks are processes joined by gloo.
"""
import fnmatch
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys

os.environ.update(DS_ACCELERATOR="cpu", DS_BUILD_OPS="0", CUDA_VISIBLE_DEVICES="", USE_LIBUV="0", OMP_NUM_THREADS="1")

#        stage ranks dtype  what
CASES = {
    "z0": (0, 2, "fp32", ()),
    "z1": (1, 3, "fp32", ()),
    "z1_bf16": (1, 2, "bf16", ()),
    "z2": (2, 5, "fp32", ()),
    "z2_bf16_rr": (2, 3, "bf16", ("rr",)),
    "z2_one": (2, 1, "fp32", ()),
    "z3": (3, 3, "fp32", ()),
    "z3_bf16": (3, 4, "bf16", ("sub",)),
    "z3_sub": (3, 5, "fp32", ("sub",)),
    "z3_sgd": (3, 2, "fp32", ("sgd",)),
    "z2_sgd": (2, 2, "fp32", ("sgd",)),
}


def rank_main(rank, name, out):
    stage, world, dtype, what = CASES[name]
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank), LOCAL_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    import torch
    import torch.distributed as dist
    import deepspeed
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None
    for op in ("broadcast", "all_reduce", "reduce", "all_gather_into_tensor", "reduce_scatter_tensor"):
        wide(dist, op)
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, init_method=f"file://{out}/meet", rank=rank, world_size=world)
    torch.manual_seed(7)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fixed = torch.nn.Parameter(torch.randn(3, 7), requires_grad=False)
            self.scale = torch.nn.Parameter(torch.randn(1))
            self.embed = torch.nn.Embedding(19, 6)
            self.up = torch.nn.Linear(6, 11)
            self.down = torch.nn.Linear(11, 6, bias=False)
            self.bn = torch.nn.BatchNorm1d(6)
            self.head = torch.nn.Linear(6, 19, bias=False)
            self.head.weight = self.embed.weight
            self.register_buffer("table", torch.randn(5))

        def forward(self, x):
            h = self.down(torch.relu(self.up(self.embed(x) * self.scale)))
            return self.head(h * self.bn.weight + self.bn.bias)  # batch norm itself wants one dtype

    config = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 1, "zero_allow_untested_optimizer": True,
              "zero_optimization": {"stage": stage, "round_robin_gradients": "rr" in what}}
    if "sub" in what:
        config["zero_optimization"]["sub_group_size"] = 60
    if dtype == "bf16":
        config["bf16"] = {"enabled": True}
    model = Net()
    ps = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in ps if p.ndim > 1], "weight_decay": 0.1}, {"params": [p for p in ps if p.ndim < 2], "weight_decay": 0.0}]
    opt = torch.optim.SGD(groups, lr=0.01, momentum=0.9) if "sgd" in what else torch.optim.AdamW(groups, lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=opt, config=config)
    for step in range(2):
        g = torch.Generator().manual_seed(100 * step + rank)
        x = torch.randint(0, 19, (8,), generator=g)
        engine.backward(engine(x).float().pow(2).mean())
        engine.step()
    engine.save_checkpoint(out + "/ckpt", tag="global_step2", client_state={"my_key": 123})
    with deepspeed.zero.GatheredParameters(list(engine.module.parameters()), enabled=stage == 3):
        if rank == 0:
            live = {k: sha(v) for k, v in engine.module.state_dict().items()}
            json.dump(live, open(out + "/live.json", "w"))
    dist.barrier()


def wide(dist, op):
    """gloo refuses bfloat16 for some: by way of float32."""
    import torch
    f = getattr(dist, op)

    def g(*a, **k):
        ts = [t for t in list(a) + list(k.values()) if isinstance(t, torch.Tensor)]
        if not any(t.dtype == torch.bfloat16 for t in ts):
            return f(*a, **k)
        as32 = {id(t): t.float() for t in ts}
        k.pop("async_op", None)
        f(*[as32.get(id(x), x) for x in a], **{n: as32.get(id(x), x) for n, x in k.items()})
        for t in ts:
            t.data.copy_(as32[id(t)])

        class Done:
            def wait(self):
                return True

            def is_completed(self):
                return True
        return Done()
    setattr(dist, op, g)


def sha(t):
    import torch
    t = t.detach().cpu().contiguous()
    raw = t.reshape(-1).view(torch.uint8).numpy().tobytes() if t.numel() else b""
    return {"dtype": str(t.dtype)[6:], "shape": list(t.shape), "sha256": hashlib.sha256(raw).hexdigest()}


def finish(name, out):
    import torch
    import deepspeed
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint
    stage, world, dtype, _ = CASES[name]
    live = json.load(open(out + "/live.json"))
    if stage:
        tensors = {k: sha(v.contiguous() if not isinstance(v, torch.Tensor) else v) for k, v in get_fp32_state_dict_from_zero_checkpoint(out + "/ckpt", "global_step2").items()}
    else:
        m = torch.load(out + "/ckpt/global_step2/mp_rank_00_model_states.pt", weights_only=False)["module"]
        tensors = {k: sha(v.float() if v.is_floating_point() else v) for k, v in m.items()}
    json.dump({"deepspeed": deepspeed.__version__, "torch": torch.__version__, "stage": stage, "world": world, "main": "global_step2", "tensors": tensors,
               "module": live, "optim": {}, "objects": {"my_key": "123", "global_steps": "2", "dp_world_size": str(world)}},
              open(out + "/expect.json", "w"), indent=1, sort_keys=True)
    for f in glob.glob(out + "/ckpt/zero_to_fp32.py") + [out + "/live.json", out + "/meet"]:
        if os.path.exists(f):
            os.remove(f)


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "--rank":
        return rank_main(int(sys.argv[2]), sys.argv[3], sys.argv[4])
    out, pattern = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "*"
    for name, (_, world, _, _) in CASES.items():
        if not fnmatch.fnmatch(name, pattern):
            continue
        case = f"{out}/{name}"
        shutil.rmtree(case, ignore_errors=True)
        os.makedirs(case + "/ckpt")
        ps = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--rank", str(r), name, case], stdout=subprocess.DEVNULL, stderr=open(f"{case}/err{r}", "w")) for r in range(world)]
        bad = [p.wait() for p in ps]
        if any(bad):
            sys.exit(f"{name}: ranks ended with {bad}: " + open(f"{case}/err{[bool(b) for b in bad].index(True)}").read()[-1500:])
        for f in glob.glob(case + "/err*"):
            os.remove(f)
        finish(name, case)
        print(name, flush=True)


if __name__ == "__main__":
    main()
