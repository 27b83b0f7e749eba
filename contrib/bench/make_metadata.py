#!/usr/bin/env python3
"""Write the `.metadata` of a big job, as its coordinator would: make_metadata.py DIR [TENSORS] [RANKS] [flat] (1000 x 1000: 189 MB).

torch's own classes, and each thing that passes between ranks goes through pickle as the collectives do it: a rank's plan on
its way to the coordinator, the plan with its numbers on its way back, the write results. So a name is a new string per rank and
item, and a file's name is one string for all that a rank wrote into it (FileSystemWriter gives every item of a file the same
storage key). The shards are sparse files. flat: an optimizer's tensors of Megatron-Core 0.9, each one flattened and cut into a range a rank.
"""
import dataclasses
import os
import pickle
import sys
import time

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties, TensorStorageMetadata
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

ROWS, COLS = 8, 4096  # of one chunk, bfloat16
ITEM = ROWS * COLS * 2 + 1600


def name(i):
    kind = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm")[i % 8]
    return f"optimizer.state.exp_avg.decoder.layers.{i // 8}.{kind}.weight" if "flat" in sys.argv else f"model.language_model.model.layers.{i // 8}.{kind}.weight"


def sent(what):
    """As another rank has it."""
    return pickle.loads(pickle.dumps(what))


def local_plan(names, rank, ranks, flat):
    items = []
    for n in names:
        shape, props = torch.Size((ranks * ROWS, COLS)), TensorProperties(dtype=torch.bfloat16)
        offsets = torch.Size((rank * ROWS, 0))
        chunk = ChunkStorageMetadata(offsets, torch.Size((ROWS, COLS)))
        if flat:
            shape, offsets = torch.Size((1, 1, ranks * ROWS * COLS)), torch.Size((0, 0, rank * ROWS * COLS))
            chunk = ChunkStorageMetadata(offsets, torch.Size((1, 1, ROWS * COLS)))
        items.append(WriteItem(MetadataIndex(n, offsets), WriteItemType.SHARD, tensor_data=TensorWriteData(chunk, props, shape)))
    return items


def write_results(plan, rank):
    key = f"__{rank}_0.distcp"
    return [WriteResult(w.index, ITEM, _StorageInfo(key, i * ITEM, ITEM)) for i, w in enumerate(plan)]


def make(path, tensors, ranks, flat=False):
    os.makedirs(path, exist_ok=True)
    names = [name(i) for i in range(tensors)]
    md, storage = {}, {}
    for r in range(ranks):
        plan = sent(local_plan(names, r, ranks, flat))
        for i, w in enumerate(plan):  # as create_default_global_save_plan
            t = md.setdefault(w.index.fqn, TensorStorageMetadata(w.tensor_data.properties, w.tensor_data.size, []))
            plan[i] = dataclasses.replace(w, index=dataclasses.replace(w.index, index=len(t.chunks)))
            t.chunks.append(w.tensor_data.chunk)
        for w in sent(write_results(sent(plan), r)):
            storage[w.index] = w.storage_data
        with open(os.path.join(path, f"__{r}_0.distcp"), "wb") as f:
            f.truncate(tensors * ITEM)
    m = Metadata(md, None if flat else {n: tuple(n.split(".", 1)) for n in names}, storage, StorageMeta(checkpoint_id=path, save_id="bench"))
    if flat:
        m.mcore_data = {n: {"nd_reformulated_orig_global_shape": (ranks * ROWS, COLS)} for n in names}
        with open(os.path.join(path, "metadata.json"), "w") as f:
            f.write('{"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}')
        torch.save({"iteration": 1, "checkpoint_version": 3.0}, os.path.join(path, "common.pt"))
    with open(os.path.join(path, ".metadata.tmp"), "wb") as f:
        pickle.dump(m, f)
    os.rename(os.path.join(path, ".metadata.tmp"), os.path.join(path, ".metadata"))


if __name__ == "__main__":
    import gc
    gc.disable()
    t = time.monotonic()
    make(sys.argv[1], *([int(a) for a in sys.argv[2:4]] or (1000, 1000)), flat="flat" in sys.argv[4:])
    print(f"{os.path.getsize(os.path.join(sys.argv[1], '.metadata'))} bytes in {time.monotonic() - t:.1f} s")
