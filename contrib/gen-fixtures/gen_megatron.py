"""Checkpoints of megatron-core of random shapes and rank counts, written by megatron.core.dist_checkpointing on CPU.

usage: gen_megatron.py OUT KIND SEED...      KIND: dist, flat, zarr

dist: tensor, pipeline and data parallel tensors, prepended axes, gated halves, experts, objects, a common state.
flat: the same and flattened tensors, cut anywhere (megatron-core 0.8 to 0.15). zarr: with that backend (to 0.15).
The cases of tests/data/megatron came of a longer program of the same manner, over ten versions of megatron-core.
"""
import argparse
import io
import json
import os
import random
import shutil
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from fixture import entry, object_repr, values


def plan(seed, kind):
    """What the ranks agree on: sizes and global tensors, key -> (tensor, how it is cut)."""
    r = random.Random(seed)
    tp, pp, dp = r.choice([(1, 1, 1), (2, 1, 2), (3, 1, 1), (2, 2, 1), (1, 3, 1), (1, 2, 2), (3, 2, 1), (1, 1, 4)])
    layers = pp * r.randint(1, 3)
    dtypes = [torch.bfloat16, torch.float32, torch.float16]
    g = {}

    def add(key, shape, how, dtype=None):
        g[key] = (values(*shape, dtype=dtype or r.choice(dtypes), seed=seed * 101 + len(g)), how)

    n = lambda: r.randint(1, 5)
    add("embedding.word_embeddings.weight", (tp * n(), n()), "axis0")
    add("decoder.final_layernorm.weight", (n(),), "all")
    add("decoder.layers.mlp.linear_fc1.weight", (layers, 2 * tp * n(), n()), "gated")
    add("decoder.layers.mlp.linear_fc2.weight", (layers, n(), tp * n()), "axis1")
    add("decoder.layers.self_attention.linear_qkv.bias", (layers, tp * n()), "layer0")
    add("decoder.layers.mlp.experts.experts.linear_fc2.weight", (layers, 2, n(), tp * n()), "experts")
    if kind != "dist":
        for i in range(4):
            dims = [n() for _ in range(r.randint(1, 3))]
            axis = r.randrange(len(dims))
            dims[axis] *= tp
            add(f"optimizer.state.exp_avg.w{i}", dims, f"flat{axis}", torch.float32)
        add("optimizer.state.exp_avg.decoder.layers.w", (layers, n(), tp * n()), "flatlayer", torch.float32)
    return tp, pp, dp, layers, g


def rank_state(rank, seed, kind, ShardedTensor, ShardedObject):
    tp, pp, dp, layers, g = plan(seed, kind)
    t, d, p = rank % tp, rank // tp % dp, rank // tp // dp
    mine = range(p * layers // pp, (p + 1) * layers // pp)
    state, n = {}, 0

    def put(obj):
        nonlocal n
        state[f"k{n}"] = obj
        n += 1

    def flat(key, block, *offsets):
        """This data rank's run of the block; which ranks have how much the seed says, nothing too."""
        cut = random.Random(f"{seed} {key} {offsets}")
        ends = sorted(cut.randint(0, block.numel()) for _ in range(dp - 1))
        a, b = ([0] + ends)[d], (ends + [block.numel()])[d]
        prepend = 1 if block.dim() < len(offsets) or key.endswith("layers.w") else 0
        put(ShardedTensor.from_rank_offsets_flat(key, block.contiguous().reshape(-1)[a:b].clone(), tuple(block.shape), *offsets,
                                                 flattened_range=slice(a, b), prepend_axis_num=prepend, replica_id=0))

    for key, (v, how) in g.items():
        first = p == 0
        if how == "axis0" and first:
            put(ShardedTensor.from_rank_offsets(key, v.chunk(tp, 0)[t].clone(), (0, t, tp), replica_id=(0, 0, d)))
        elif how == "all" and p == pp - 1:
            put(ShardedTensor.from_rank_offsets(key, v.clone(), replica_id=(0, t, d)))
        elif how.startswith("flat") and how != "flatlayer" and first:
            flat(key, v.chunk(tp, int(how[4]))[t], (int(how[4]), t, tp))
        for l in mine:
            if how == "gated":
                c = v[l].chunk(2 * tp, 0)
                for half in (0, 1):
                    put(ShardedTensor.from_rank_offsets(key, c[half * tp + t].clone(), (0, l, layers), (1, half * tp + t, 2 * tp),
                                                        prepend_axis_num=1, replica_id=(0, 0, d)))
            elif how == "axis1":
                put(ShardedTensor.from_rank_offsets(key, v[l].chunk(tp, 1)[t].clone(), (0, l, layers), (2, t, tp), prepend_axis_num=1,
                                                    replica_id=(0, 0, d)))
            elif how == "layer0":
                put(ShardedTensor.from_rank_offsets(key, v[l].chunk(tp, 0)[t].clone(), (0, l, layers), (1, t, tp), prepend_axis_num=1,
                                                    replica_id=(0, 0, d)))
            elif how == "experts":
                for e in range(2):
                    put(ShardedTensor.from_rank_offsets(key, v[l, e].chunk(tp, 1)[t].clone(), (0, l, layers), (1, e, 2), (3, t, tp),
                                                        prepend_axis_num=2, replica_id=(0, 0, d)))
            elif how == "flatlayer":
                flat(key, v[l].chunk(tp, 1)[t], (0, l, layers), (2, t, tp))
            if how == "gated":
                put(ShardedObject("decoder.layers.mlp.linear_fc1._extra_state", None if l % 2 else io.BytesIO(b"state %d" % l), (layers,), (l,),
                                  replica_id=(0, t, d)))
    put(ShardedObject("rng_state", [{"torch_rng_state": torch.arange(4, dtype=torch.uint8) + t}], (pp, tp), (p, t), replica_id=d))
    state |= {"iteration": 1000 + seed, "checkpoint_version": 3.0, "args": argparse.Namespace(seed=seed, tensor_model_parallel_size=tp)}
    return state


def save(rank, world, port, out, seed, kind):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.cuda.synchronize = lambda *a, **k: None
    torch.cuda.current_device = lambda: "cpu"
    import torch.distributed.checkpoint.filesystem as fs
    write = getattr(fs, "_write_item", None)
    if write:  # torch 2.7 gave it one argument more than megatron-core to 0.12 passes
        import inspect
        want = len(inspect.signature(write).parameters)
        fs._write_item = lambda *a, **k: write(*a, **(k if len(a) + len(k) >= want else k | {"serialization_format": fs.SerializationFormat.TORCH_SAVE}))
    from megatron.core.dist_checkpointing import ShardedObject, ShardedTensor, save
    state = rank_state(rank, seed, kind, ShardedTensor, ShardedObject)
    if rank == 0:
        os.makedirs(out)
    dist.barrier()
    save(state, out, ("zarr", 1)) if kind == "zarr" else save(state, out)
    dist.barrier()
    dist.destroy_process_group()


def expected(seed, kind):
    tp, pp, dp, layers, g = plan(seed, kind)
    objects = {f"decoder.layers.mlp.linear_fc1._extra_state/shard_{l}_{layers}": "None" if l % 2 else object_repr(io.BytesIO(b"state %d" % l))
               for l in range(layers)}
    objects |= {f"rng_state/shard_{p}.{t}_{pp}.{tp}": "(long)" for p in range(pp) for t in range(tp)}
    return {"note": f"gen_megatron.py {kind} {seed}; tp={tp} pp={pp} dp={dp}", "world": tp * pp * dp,
            "tensors": {k: entry(v) for k, (v, _) in g.items()}, "objects": objects}


def main():
    out, kind, seeds = sys.argv[1], sys.argv[2], [int(s) for s in sys.argv[3:]]
    for seed in seeds:
        tp, pp, dp, _, _ = plan(seed, kind)
        case = f"{out}/{kind}_{seed}"
        shutil.rmtree(case, ignore_errors=True)
        os.makedirs(case)
        mp.spawn(save, (tp * pp * dp, 29500 + os.getpid() % 2000, f"{case}/ckpt", seed, kind), nprocs=tp * pp * dp)
        with open(f"{case}/expect.json", "w") as f:
            json.dump(expected(seed, kind), f, indent=1, sort_keys=True)
            f.write("\n")
        print(case)


if __name__ == "__main__":
    main()
