"""EMULATED: legacy Megatron-LM checkpoints (mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt) of random sizes: whole weights cut as Megatron's layers
cut them. What megatron-core itself makes of a model is in tests/data/megatron/0.16.1-legacy; here are expert parallelism and virtual stages.

usage: gen_megatron_legacy.py OUT SEED...
"""
import argparse
import collections
import json
import os
import random
import shutil
import sys

import torch

from fixture import entry, values


def cut(name, v, tp, t, gated):
    if name.endswith(("linear_fc1.weight", "linear_fc1.bias")) and gated:
        w, u = v.chunk(2, 0)
        return torch.cat([w.chunk(tp, 0)[t], u.chunk(tp, 0)[t]])
    if name.endswith(("word_embeddings.weight", "output_layer.weight", "linear_qkv.weight", "linear_qkv.bias", "linear_fc1.weight", "linear_fc1.bias")):
        return v.chunk(tp, 0)[t].clone()
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        return v.chunk(tp, 1)[t].clone()
    return v.clone()


def whole(r, tp, layers, experts, gated, seed):
    """name -> tensor, of the whole model."""
    h, f, out = r.randint(2, 5) * tp, r.randint(1, 4) * tp, {}
    add = lambda name, *shape: out.__setitem__(name, values(*shape, dtype=torch.bfloat16, seed=seed * 211 + len(out)))
    add("embedding.word_embeddings.weight", tp * r.randint(2, 6), h)
    for l in range(layers):
        p = f"decoder.layers.{l}."
        add(p + "input_layernorm.weight", h)
        add(p + "self_attention.linear_qkv.weight", 3 * h, h)
        add(p + "self_attention.linear_proj.weight", h, h)
        add(p + "self_attention.linear_proj.bias", h)
        if experts:
            add(p + "mlp.router.weight", experts, h)
            for e in range(experts):
                grouped = seed % 2
                name = (lambda k: f"{p}mlp.experts.linear_{k}.weight{e}") if grouped else (lambda k: f"{p}mlp.experts.local_experts.{e}.linear_{k}.weight")
                add(name("fc1"), (2 if gated else 1) * f, h)
                add(name("fc2"), h, f)
        else:
            add(p + "mlp.linear_fc1.weight", (2 if gated else 1) * f, h)
            add(p + "mlp.linear_fc2.weight", h, f)
    add("decoder.final_layernorm.weight", h)
    add("output_layer.weight", tp * r.randint(2, 6), h)
    return out


def main():
    out, seeds = sys.argv[1], [int(s) for s in sys.argv[2:]]
    for seed in seeds:
        r = random.Random(seed)
        tp, pp, ep, vp = r.choice([(2, 1, 1, 1), (1, 3, 1, 1), (2, 2, 1, 2), (3, 2, 1, 1), (1, 1, 2, 1), (2, 2, 2, 1), (1, 2, 1, 3), (1, 1, 1, 1)])
        each, gated = r.randint(1, 2), r.random() < 0.5
        layers, experts = pp * vp * each, ep * 2 if ep > 1 else 0
        model = whole(r, tp, layers, experts, gated, seed)
        case = f"{out}/legacy_{seed}"
        shutil.rmtree(case, ignore_errors=True)
        for p in range(pp):
            for e in range(ep):
                for t in range(tp):
                    name = f"mp_rank_{t:02d}" + (f"_{p:03d}" if pp > 1 else "") + (f"_{e:03d}" if ep > 1 else "")
                    state = {"args": argparse.Namespace(tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp, expert_model_parallel_size=ep, swiglu=gated,
                                                        num_layers=layers, num_experts=experts or None, untie_embeddings_and_output_weights=True),
                             "checkpoint_version": 3.0, "iteration": 7}
                    for v in range(vp):
                        first = (v * pp + p) * each  # chunk by chunk, each over all stages
                        part = collections.OrderedDict()
                        for k, x in model.items():
                            local = k
                            if k.startswith("decoder.layers."):
                                l = int(k.split(".")[2])
                                if not first <= l < first + each:
                                    continue
                                local = k.replace(f"layers.{l}.", f"layers.{l - first}.", 1)
                            elif k.startswith("embedding") and (p or v) or k[:7] in ("decoder", "output_") and (p < pp - 1 or v < vp - 1):
                                continue
                            piece = cut(local.rstrip("0123456789") if ".experts.linear" in local else local, x, tp, t, gated)
                            if experts and ".experts." in local:
                                i = int(local.rsplit("weight", 1)[1]) if ".experts.linear" in local else int(local.split("local_experts.")[1].split(".")[0])
                                if i // 2 != e:
                                    continue
                                local = local[:-len(str(i))] + str(i % 2) if ".experts.linear" in local else local.replace(f"local_experts.{i}.", f"local_experts.{i % 2}.")
                            part[local] = piece
                        state["model" if vp == 1 else f"model{v}"] = part
                    os.makedirs(f"{case}/ckpt/iter_0000007/{name}")
                    torch.save(state, f"{case}/ckpt/iter_0000007/{name}/model_optim_rng.pt")
        exp = {"note": f"EMULATED: gen_megatron_legacy.py {seed}; tp={tp} pp={pp} ep={ep} vp={vp} gated={gated}", "main": "iter_0000007",
               "tensors": {k: entry(v) for k, v in model.items()}, "objects": {}}
        with open(f"{case}/expect.json", "w") as f:
            json.dump(exp, f, indent=1, sort_keys=True)
            f.write("\n")


if __name__ == "__main__":
    main()
