#!/usr/bin/env python3
"""Write the DCP cases of tests/data with the installed PyTorch: gen_dcp.py OUT [CASE-GLOB].

OUT/CASE/ckpt is what the saver wrote, OUT/CASE/expect.json what must come out of it.
"""
import fnmatch
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._nested_dict import flatten_state_dict
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor import distribute_tensor as _distribute

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hostile
import objects
from fixture import expectation, fresh, full, run_ranks, values, write_expect
from handmade import HandMade, item_bytes

warnings.filterwarnings("ignore")
CASES = {}


def distribute_tensor(t, mesh, placements):
    """Each rank cuts its own shard: gloo scatters only some dtypes, and every rank has the values."""
    return _distribute(t, mesh, placements, src_data_rank=None)


def case(world=1):
    def deco(fn):
        CASES[fn.__name__.removeprefix("case_")] = (fn, world)
        return fn
    return deco


def save(rank, d, state, note="", sub="", flat=None, **kw):
    """Save `state` into d/ckpt/sub; rank 0 notes what was handed over."""
    path = os.path.join(d, "ckpt", sub) if sub else os.path.join(d, "ckpt")
    writer = kw.pop("writer", None)
    wargs = kw.pop("wargs", {})
    planner = kw.pop("planner", None)
    writer = writer(path, **wargs) if writer else FileSystemWriter(path, sync_files=False, **wargs)
    dcp.save(state, storage_writer=writer, planner=planner, no_dist=not dist.is_initialized(), **kw)
    flat = flatten_state_dict(state)[0] if flat is None else flat
    exp = expectation(flat, world=dist.get_world_size() if dist.is_initialized() else 1, note=note)
    if rank == 0 and not sub:
        write_expect(d, exp)
    return exp


def llama(dist_fn, layers=1, dim=13, dtype=torch.bfloat16, prefix=""):
    """A tiny transformer's weights; dist_fn(name, tensor) shards each one."""
    shapes = {"tok_embeddings.weight": (37, dim), "norm.weight": (dim,), "output.weight": (37, dim)}
    for i in range(layers):
        shapes |= {f"layers.{i}.attention.wq.weight": (dim, dim), f"layers.{i}.attention.wk.weight": (6, dim),
                   f"layers.{i}.feed_forward.w1.weight": (34, dim), f"layers.{i}.feed_forward.w2.weight": (dim, 34),
                   f"layers.{i}.attention_norm.weight": (dim,)}
    return {prefix + k: dist_fn(k, values(*s, dtype=torch.float32 if "norm" in k else dtype, seed=n)) for n, (k, s) in enumerate(shapes.items())}


def optim_of(model, seed=50):
    """What torch.distributed.checkpoint.state_dict gives for AdamW: state by name, two param_groups."""
    state = {}
    for n, (k, w) in enumerate(model.items()):
        s = {"step": torch.tensor(17.0)}
        for m in ("exp_avg", "exp_avg_sq"):
            v = values(*w.shape, seed=seed + n + (m == "exp_avg_sq"))
            s[m] = distribute_tensor(v, w.device_mesh, w.placements) if isinstance(w, DTensor) else v
        state[k] = s
    names = list(model)
    group = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1, "amsgrad": False, "foreach": None}
    return {"state": state, "param_groups": [{"params": names[:3], **group}, {"params": names[3:], **group, "weight_decay": 0.0, "lr": 1e-5}]}


def rows(mesh):
    return lambda k, t: distribute_tensor(t, mesh, [Shard(0)])


@case(4)
def case_fsdp4(rank, world, d):
    m = llama(rows(init_device_mesh("cpu", (4,))))
    save(rank, d, {"model": m, "optim": optim_of(m), "train": {"step": 1245, "loss": 2.5, "flags": (1, "a", None), "name": "run-é中", "hist": [1, 2, 3]}},
         "row shards of 4, uneven (37, 13, 34, 6 rows)")


@case(4)
def case_columns(rank, world, d):
    """Column shards: 4 of a matrix, and 64 of another (16 a rank) by ShardedTensor."""
    from torch.distributed._shard.sharded_tensor import Shard as TShard, ShardedTensor, ShardedTensorMetadata, ShardMetadata
    from torch.distributed._shard.sharded_tensor.metadata import TensorProperties
    mesh = init_device_mesh("cpu", (4,))
    plain = {"w4": values(31, 26, seed=1), "w3d": values(3, 5, 18, dtype=torch.int16, seed=2), "w64": values(6, 64 * 5 + 3, seed=3)}
    state = {"w4": distribute_tensor(plain["w4"], mesh, [Shard(1)]), "w3d": distribute_tensor(plain["w3d"], mesh, [Shard(2)])}
    t, cuts = plain["w64"], [i * 5 for i in range(64)] + [64 * 5 + 3]
    metas = [ShardMetadata([0, a], [6, b - a], f"rank:{i // 16}/cpu") for i, (a, b) in enumerate(zip(cuts, cuts[1:]))]
    mine = [TShard(t[:, m.shard_offsets[1]:m.shard_offsets[1] + m.shard_sizes[1]].contiguous(), m) for i, m in enumerate(metas) if i // 16 == rank]
    state["w64"] = ShardedTensor._init_from_local_shards_and_global_metadata(
        mine, ShardedTensorMetadata(metas, t.shape, TensorProperties(dtype=t.dtype)))
    save(rank, d, {"model": state}, "column shards: 4, and 64 by ShardedTensor, 16 a rank", flat={f"model.{k}": v for k, v in plain.items()})


@case(4)
def case_mesh2x2(rank, world, d):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    put = lambda k, t: distribute_tensor(t, mesh, [Shard(0), Shard(1)] if t.ndim == 2 else [Shard(0), Replicate()])
    save(rank, d, {"model": llama(put, layers=1) | {"box": distribute_tensor(values(5, 7, 9, seed=77), mesh, [Shard(2), Shard(1)])}},
         "2 x 2 mesh, blocks")


@case(4)
def case_strided_fsdp_tp(rank, world, d):
    """FSDP over TP on one dimension: chunks that are not in ascending order."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 6))
    ref = {k: v.detach().clone() for k, v in net.state_dict().items()}
    net = parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(net, mesh=mesh["dp"])
    sd = net.state_dict()
    for k, v in ref.items():
        assert torch.equal(full(sd[k]), v)
    save(rank, d, {"model": sd}, "fully_shard over ColwiseParallel/RowwiseParallel", flat={f"model.{k}": v for k, v in ref.items()})


@case(4)
def case_hsdp(rank, world, d):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    put = lambda k, t: distribute_tensor(t, mesh, [Replicate(), Shard(0)])
    save(rank, d, {"model": llama(put, layers=1), "step": 9}, "replicated over 2, sharded over 2: deduplicated by the saver")


DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool",
          "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
          "float4_e2m1fn_x2"]


@case(2)
def case_dtypes(rank, world, d):
    mesh, plain, sharded = init_device_mesh("cpu", (2,)), {}, {}
    for n, name in enumerate(DTYPES):
        t = values(5, 4, dtype=getattr(torch, name), seed=n)
        plain[name] = t
        try:  # the shard of a dtype that distribute_tensor cannot move is cut by hand
            sharded[name] = distribute_tensor(t, mesh, [Shard(0)])
        except Exception:
            cut = t.view(torch.uint8)[:3].view(t.dtype) if rank == 0 else t.view(torch.uint8)[3:].view(t.dtype)
            sharded[name] = DTensor.from_local(cut, mesh, [Shard(0)], run_check=False, shape=t.shape, stride=t.stride())
    state = {"plain": plain, "sharded": sharded}
    save(rank, d, state, "every dtype torch.save takes, plain and in 2 row shards",
         flat={f"plain.{k}": v for k, v in plain.items()} | {f"sharded.{k}": v for k, v in plain.items()})


def stride_values():
    c = values(3, 3, dtype=torch.complex64, seed=5)
    a = torch.arange(24.0)
    return {"transposed": values(3, 5, seed=1).t(), "channels_last": values(2, 3, 4, 5, seed=2).to(memory_format=torch.channels_last),
            "channels_last_3d": values(1, 2, 2, 3, 2, seed=3).to(memory_format=torch.channels_last_3d),
            "permuted": values(2, 3, 4, seed=4).permute(2, 0, 1), "expanded": values(5, seed=6).expand(4, 5), "conj": c.conj(), "negconj": c.conj().imag,
            "conj_t": c.conj().t(), "scalar": torch.tensor(3.25), "scalar_i": torch.tensor(-7), "one": torch.ones(1), "empty": torch.zeros(0),
            "empty2": torch.zeros(3, 0, 2, dtype=torch.bfloat16), "sliced": a.view(4, 6)[1:3, 2:5], "offset": a[5:9],
            "step": a[::2], "param": torch.nn.Parameter(values(2, 2, seed=8)), "dims8": values(1, 2, 1, 2, 1, 2, 1, 2, seed=9)}


@case(2)
def case_strides(rank, world, d):
    mesh, v = init_device_mesh("cpu", (2,)), stride_values()
    shard_t = distribute_tensor(values(7, 6, seed=10), mesh, [Shard(0)]).t()  # local shards are column-major
    save(rank, d, {"m": v | {"shard_transposed": shard_t}}, "layouts the saver keeps: transposed, channels_last, conj, neg, 0-dim, empty",
         flat={f"m.{k}": x for k, x in v.items()} | {"m.shard_transposed": values(7, 6, seed=10).t()})


@case()
def case_storage_offsets(rank, world, d):
    """Items other writers could make: views of larger storages, gaps between items, chunks in a mixed order, several files."""
    h, flat = HandMade(d + "/ckpt"), {}
    base = values(40, seed=1)
    view = base[7:31].view(4, 6)
    h.put("__0_0.distcp", b"\xEEjunk before")
    h.tensor("model.view", (4, 6), torch.float32, [((0, 0), (4, 6), "__0_0.distcp", item_bytes(view))])
    flat["model.view"] = view
    h.put("__0_0.distcp", b"PK\3\4 thirteen b")
    vt = values(9, 8, dtype=torch.int16, seed=2)[2:7, 1:6].t()
    h.tensor("model.view_t", (5, 5), torch.int16, [((0, 0), (5, 5), "__0_0.distcp", item_bytes(vt))])
    flat["model.view_t"] = vt
    cc = values(6, 4, dtype=torch.complex64, seed=3)[1:5].conj()
    h.tensor("model.view_conj", (4, 4), torch.complex64, [((0, 0), (4, 4), "__1_0.distcp", item_bytes(cc))])
    flat["model.view_conj"] = cc
    ex = values(6, seed=4)[2:3].expand(3, 1)
    h.tensor("model.view_expanded", (3, 1), torch.float32, [((0, 0), (3, 1), "__1_0.distcp", item_bytes(ex))])
    flat["model.view_expanded"] = ex
    t = values(11, 10, seed=5)  # ragged blocks, last first, in three files, each a view of the whole tensor
    boxes = [(6, 0, 5, 10), (0, 7, 6, 3), (0, 0, 2, 7), (2, 0, 4, 3), (2, 3, 4, 4), (11, 0, 0, 10)]
    h.tensor("model.ragged", (11, 10), torch.float32,
             [((r, c), (n, m), f"__{i % 3}_0.distcp", item_bytes(t[r:r + n, c:c + m])) for i, (r, c, n, m) in enumerate(boxes)])
    flat["model.ragged"] = t
    small = values(5, dtype=torch.bfloat16, seed=6)
    h.tensor("model.in_subdir", (5,), torch.bfloat16, [((0,), (5,), "sub/part.bin", item_bytes(small))]) if os.makedirs(d + "/ckpt/sub", exist_ok=True) is None else 0
    flat["model.in_subdir"] = small
    h.object("step", 7)
    flat["step"] = 7
    h.commit()
    write_expect(d, expectation(flat, world=3, note="EMULATED by hand: views of larger storages, junk between items, ragged boxes, a file in a subdirectory"))


@case(2)
def case_nested(rank, world, d):
    t = lambda n: values(2, n, seed=n)
    state = {"": t(1), "a": {1: {2: {"x": t(2)}, 3: "three"}, "1b": [1, 2]}, "a.b": {"c.d": t(3)}, "list": [t(4), [t(5), [{"k": [t(6)]}]], 5],
             "none": None, "et": (), "el": [], "empty_dict": {}, "tuple_with_tensor": (t(7), 2), "b": b"bytes\x00\xff", "-x": 1,
             "deep": {"0": {"0": {"0": {"0": t(8)}}}}, "tenlist": [t(9) for _ in range(12)], "mixed": {"w": t(10), "n": 3, "s": "text", "o": {"p": 1.5}},
             "nan": float("nan"), "inf": float("inf"), "big": 2**70, "neg": -2**31 - 1}
    save(rank, d, state, "paths of str and int, lists, tuples, empty containers")


@case(2)
def case_flat(rank, world, d):
    """flatten_state_dict=False: planner_data is None, a nested dict is one bytes item."""
    mesh = init_device_mesh("cpu", (2,))
    state = {"w": distribute_tensor(values(7, 3, seed=1), mesh, [Shard(0)]), "plain": values(4, seed=2), "step": 3,
             "extra": {"a": {1: [torch.ones(2), "x"]}, "b": None}, "list": [1, {"t": torch.arange(3)}]}
    save(rank, d, state, "planner_data None", flat=state, planner=DefaultSavePlanner(flatten_state_dict=False))


@case(2)
def case_zstd(rank, world, d):
    from torch.distributed.checkpoint._extension import ZStandard
    mesh = init_device_mesh("cpu", (2,))
    state = {"model": {"zeros": distribute_tensor(torch.zeros(300, 40), mesh, [Shard(0)]), "w": distribute_tensor(values(37, 14, seed=1), mesh, [Shard(0)]),
                       "cols": distribute_tensor(values(11, 9, dtype=torch.bfloat16, seed=2), mesh, [Shard(1)]), "t": values(5, 3, seed=3).t()},
             "step": 4, "cfg": "x" * 500}
    save(rank, d, state, "each item compressed: stream.zstd/1", wargs={"_extensions": [ZStandard()]})


@case(2)
def case_zstd_twice(rank, world, d):
    from torch.distributed.checkpoint._extension import ZStandard
    mesh = init_device_mesh("cpu", (2,))
    state = {"model": {"zeros": distribute_tensor(torch.zeros(300, 4), mesh, [Shard(0)]), "w": distribute_tensor(values(17, 4, seed=1), mesh, [Shard(0)]), "t": values(5, 3, seed=3).t()}, "step": 4, "cfg": "x" * 500}
    save(rank, d, state, "each item compressed twice: stream.zstd/1, stream.zstd/1", wargs={"_extensions": [ZStandard(), ZStandard()]})


@case(3)
def case_safetensors(rank, world, d):
    from torch.distributed.checkpoint.filesystem import SerializationFormat
    mesh = init_device_mesh("cpu", (3,))
    state = {"model": llama(rows(mesh), layers=1) | {"plain": values(3, 3, seed=40), "empty": torch.zeros(0, 2)}, "step": 4, "opts": (1, "two")}
    save(rank, d, state, "serialization_format=SAFETENSORS", wargs={"serialization_format": SerializationFormat.SAFETENSORS})


@case(2)
def case_safetensors_zstd(rank, world, d):
    from torch.distributed.checkpoint._extension import ZStandard
    from torch.distributed.checkpoint.filesystem import SerializationFormat
    mesh = init_device_mesh("cpu", (2,))
    state = {"model": llama(rows(mesh), layers=1) | {"plain": values(3, 3, seed=40), "empty": torch.zeros(0, 2)}, "step": 4, "opts": (1, "two")}
    save(rank, d, state, "SAFETENSORS under zstd: objects compressed, empty frames for tensors, a plain blob behind them",
         wargs={"serialization_format": SerializationFormat.SAFETENSORS, "_extensions": [ZStandard()]})


@case(3)
def case_ranklocal(rank, world, d):
    mesh = init_device_mesh("cpu", (3,))
    save(rank, d, {"model": llama(rows(mesh), layers=1), "step": 4}, "use_collectives=False: __R.metadata, no .metadata", use_collectives=False)


@case(2)
def case_threads3(rank, world, d):
    mesh = init_device_mesh("cpu", (2,))
    save(rank, d, {"model": llama(rows(mesh), layers=1), "a": 1, "b": "two"}, "thread_count=3: three files a rank", wargs={"thread_count": 3})


@case(2)
def case_file_per_item(rank, world, d):
    mesh = init_device_mesh("cpu", (2,))
    save(rank, d, {"model": {"w": distribute_tensor(values(5, 3, seed=1), mesh, [Shard(0)]), "b": values(3, seed=2)}, "x": 1, "y": None},
         "single_file_per_rank=False", wargs={"single_file_per_rank": False})


def hf(rank, d, note, **kw):
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    mesh = init_device_mesh("cpu", (3,))
    put = lambda k, t: distribute_tensor(t, mesh, [Shard(0)])
    m = {f"model.layers.{i}.{n}": put(n, values(*s, dtype=torch.bfloat16 if len(s) > 1 else torch.float32, seed=i * 10 + len(n)))
         for i in range(2) for n, s in {"q_proj.weight": (7, 6), "mlp.weight": (10, 6), "norm.weight": (6,)}.items()}
    m["model.embed_tokens.weight"] = put("e", values(19, 6, dtype=torch.bfloat16, seed=90))
    mapping = {k: 1 + (i >= 4) for i, k in enumerate(m)}
    save(rank, d, m, note, writer=HuggingFaceStorageWriter, wargs={"fqn_to_index_mapping": mapping, "save_distributed": True, **kw}, flat=m)


@case(3)
def case_hf_sharded(rank, world, d):
    hf(rank, d, "HuggingFaceStorageWriter, shard-* files, no index, no .metadata")


@case(3)
def case_hf_consolidated(rank, world, d):
    hf(rank, d, "HuggingFaceStorageWriter with consolidation: model-* beside sharded/", enable_consolidation=True)


def composite(rank, d, model_dir, model, optim_dir, optim, note):
    a = save(rank, d, model, sub=model_dir)
    b = save(rank, d, optim, sub=optim_dir)
    if rank == 0:
        write_expect(d, {"tensors": {}, "objects": {}, "composite": {model_dir: {"role": "model", **a}, optim_dir: {"role": "optim", **b}},
                         "torch": torch.__version__, "world": dist.get_world_size(), "note": note})


@case(2)
def case_accelerate(rank, world, d):
    m = llama(rows(init_device_mesh("cpu", (2,))), layers=1, dtype=torch.float32)
    composite(rank, d, "pytorch_model_fsdp_0", {"model": m}, "optimizer_0", {"optimizer": optim_of(m)},
              "accelerate's FSDP sharded state dict: two checkpoints in one directory")


@case(2)
def case_bytecheckpoint(rank, world, d):
    m = llama(rows(init_device_mesh("cpu", (2,))), layers=1, dtype=torch.float32)
    composite(rank, d, "model", dict(m), "optim", optim_of(m), "ByteCheckpoint's directories: flat model keys, optimizer")


@case()
def case_neg_ints(rank, world, d):
    neg = lambda t: torch._neg_view(t)
    v = {str(t).removeprefix("torch."): neg(values(5, 3, dtype=t, seed=n)) for n, t in enumerate((torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8))}
    v |= {"columns": neg(values(4, 5, dtype=torch.int32, seed=9).t()), "edges": neg(torch.tensor([0, 1, -1, 2**63 - 1, -2**63, 256, -65536])), "part": neg(torch.arange(20, dtype=torch.int16))[3:9]}
    save(rank, d, {"model": v}, "integers with the negative bit (torch._neg_view)")


@case(2)
def case_automodel(rank, world, d):
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    mesh = init_device_mesh("cpu", (2,))
    m = hf_named(mesh, layers=1)
    a = save(rank, d, m, sub="model", writer=HuggingFaceStorageWriter, wargs={"save_distributed": True}, flat=m)
    o = optim_of(m)
    b = save(rank, d, {"optim": o}, sub="optim")
    if rank == 0:
        write_expect(d, {"tensors": {}, "objects": {}, "composite": {"model": {"role": "model", **a}, "optim": {"role": "optim", **b}}, "torch": torch.__version__,
                         "world": world, "note": "the layout NeMo Automodel documents, made with torch's writers: safetensors shards in model/, DCP in optim/"})


@case(2)
def case_torchtitan(rank, world, d):
    m = llama(rows(init_device_mesh("cpu", (2,))), layers=2)
    state = dict(m) | {"optimizer": optim_of(m), "lr_scheduler": {"base_lrs": [3e-4], "last_epoch": 3, "_last_lr": [2.9e-4]},
                       "train_state": {"step": torch.tensor(1245), "ntokens_seen": torch.tensor(2**40)}, "dataloader": {"dp_rank_0": b"\x80\x04N."}}
    save(rank, d, state, "torchtitan: model keys at the root beside optimizer, lr_scheduler, train_state, dataloader")


@case(2)
def case_app(rank, world, d):
    m = llama(rows(init_device_mesh("cpu", (2,))), layers=1)
    save(rank, d, {"app": {"model": m, "optim": optim_of(m)}}, "one root container: {'app': {model, optim}}")


def hf_named(mesh, prefix="", dim=16, layers=2, vocab=48):
    """LlamaForCausalLM's names for hidden 16, 4 heads, 2 layers."""
    s = {"model.embed_tokens.weight": (vocab, dim), "model.norm.weight": (dim,), "lm_head.weight": (vocab, dim)}
    for i in range(layers):
        p = f"model.layers.{i}."
        s |= {p + f"self_attn.{x}_proj.weight": (dim, dim) for x in "qkvo"}
        s |= {p + "mlp.gate_proj.weight": (24, dim), p + "mlp.up_proj.weight": (24, dim), p + "mlp.down_proj.weight": (dim, 24),
              p + "input_layernorm.weight": (dim,), p + "post_attention_layernorm.weight": (dim,)}
    return {prefix + k: distribute_tensor(values(*v, seed=n) * 0.1 + (1.0 if "norm" in k else 0.0), mesh, [Shard(0)]) for n, (k, v) in enumerate(s.items())}


LLAMA_CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4,
                "num_key_value_heads": 4, "num_hidden_layers": 2, "vocab_size": 48, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
                "tie_word_embeddings": False, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}


@case(2)
def case_hf_flat(rank, world, d):
    """Flat HF names at the root, a config.json beside them: what from_pretrained wants."""
    import json
    save(rank, d, hf_named(init_device_mesh("cpu", (2,))), "flat HF-named keys (LlamaForCausalLM) and config.json")
    if rank == 0:
        with open(d + "/ckpt/config.json", "w") as f:
            json.dump(LLAMA_CONFIG, f, indent=2, sort_keys=True)


@case(2)
def case_orig_mod(rank, world, d):
    mesh = init_device_mesh("cpu", (2,))
    m = hf_named(mesh, layers=1)
    m = {k.replace("model.layers.0.", "module._orig_mod.model.layers.0._checkpoint_wrapped_module.") if ".layers." in k else "module._orig_mod." + k: v
         for k, v in m.items()}
    save(rank, d, {"model": m | {"module._orig_mod.model.layers.0.mlp._extra_state": b"te"}}, "wrappers' components in the names: module., _orig_mod, _checkpoint_wrapped_module")


@case()
def case_objects300(rank, world, d):
    v = objects.all_objects()
    state = {"obj": v, "model": {"w": values(2, 2, seed=1)}}
    flat = {f"obj.{k}": x for k, x in v.items()} | {"model.w": state["model"]["w"]}
    save(rank, d, state, "300 Python values as bytes items (contrib/gen-fixtures/objects.py)", flat=flat)


@case(2)
def case_tied(rank, world, d):
    mesh = init_device_mesh("cpu", (2,))
    w = distribute_tensor(values(12, 5, seed=1), mesh, [Shard(0)])
    p = values(4, 4, seed=2)
    save(rank, d, {"model": {"embed.weight": w, "lm_head.weight": w, "a": p, "b": p, "b_t": p.t()}}, "one tensor under several names")


NAMES = ["", "/", "a/b", "new\nline", "tab\t", "100%", "%2F", "%", " ", " lead", "-dash", "--help", ".", "..", "...", ".hidden", "trail.", "a..b", "*", "a[0]", "?", "quote\"'",
         "back\\slash", "é中", "\U0001F680", "nul\0in", "\x1b[31mred", "L" * 239, "M" * 255, "N" * 400, "中" * 120, "pre", "pre.fix", "pre.fix.more", "tensor.npy",
         "info.json", "CASE", "case", "a~b", "latest", "checkpoint.pt"]


@case()
def case_names(rank, world, d):
    v = {k: values(2, 3, seed=n) for n, k in enumerate(NAMES)}
    save(rank, d, v, "odd names at the root", flat=v)


@case()
def case_names_surrogate(rank, world, d):
    """Bytes that are not UTF-8 cannot pass torch's own saver (it is happy) nor every filesystem: written by hand."""
    h, flat = HandMade(d + "/ckpt"), {}
    for n, k in enumerate(["\udcff", "ok.\udc80\udcfe.w", "é\udcc3", "%\udcff/"]):
        t = values(3, n + 1, seed=n)
        h.tensor(k, t.shape, t.dtype, [((0, 0), tuple(t.shape), "__0_0.distcp", item_bytes(t))], path=(k,))
        flat[k] = t
    h.object("plain\udcff", 5, path=("plain\udcff",))
    flat["plain\udcff"] = 5
    h.commit()
    write_expect(d, expectation(flat, world=1, note="EMULATED by hand: names holding surrogate escapes"))


@case()
def case_evil_names(rank, world, d):
    one = lambda n: values(2, seed=n)
    state = {"model": {k: one(n) for n, k in enumerate(hostile.ALL)}}
    state |= {g: {"w": one(100 + n), "o": g} for n, g in enumerate(hostile.GROUPS)}
    save(rank, d, state, "names that a shell, a prompt or a terminal would obey; none may")


def main(out, glob="*"):
    os.makedirs(out, exist_ok=True)
    bad = 0
    for name, (fn, world) in CASES.items():
        if not fnmatch.fnmatch(name, glob):
            continue
        d = fresh(os.path.abspath(os.path.join(out, name)))
        try:
            if world == 1:
                fn(0, 1, d)
            else:
                run_ranks(world, fn, d)
        except Exception as e:
            bad += 1
            print(f"FAIL {name}: {str(e)[-1500:]}")
            continue
        print(name, sum(os.path.getsize(os.path.join(b, f)) for b, _, fs in os.walk(d) for f in fs))
    return bad


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
