#!/usr/bin/env python3
"""Write the `.metadata` of a big job, as its coordinator would: make_metadata.py DIR [TENSORS] [RANKS] (1000 x 1000: 187 MB).

torch's own metadata classes. Each rank's plan and write results go through pickle apart, as the gather does, so every
name and path is a new string per rank and the pickle's memo is as large as in life. The shards are sparse files.
"""
import os
import pickle
import sys
import time

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties, TensorStorageMetadata
from torch.distributed.checkpoint.storage import WriteResult

ROWS, COLS = 8, 4096  # of one chunk, bfloat16
ITEM = ROWS * COLS * 2 + 1600


def name(i):
    kind = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "input_layernorm")[i % 8]
    return f"model.layers.{i // 8}.{kind}.weight"


def make(path, tensors, ranks):
    os.makedirs(path, exist_ok=True)
    names = [name(i) for i in range(tensors)]
    md = {n: TensorStorageMetadata(TensorProperties(dtype=torch.bfloat16), torch.Size((ranks * ROWS, COLS)), []) for n in names}
    storage = {}
    for r in range(ranks):
        plan = [(n, ChunkStorageMetadata(torch.Size((r * ROWS, 0)), torch.Size((ROWS, COLS)))) for n in names]
        for n, chunk in pickle.loads(pickle.dumps(plan)):
            md[n].chunks.append(chunk)
        results = [WriteResult(MetadataIndex(n, torch.Size((r * ROWS, 0)), r), ITEM, _StorageInfo(f"__{r}_0.distcp", i * ITEM, ITEM)) for i, n in enumerate(names)]
        for w in pickle.loads(pickle.dumps(results)):
            storage[w.index] = w.storage_data
        with open(os.path.join(path, f"__{r}_0.distcp"), "wb") as f:
            f.truncate(tensors * ITEM)
    m = Metadata(md, {n: tuple(n.split(".", 1)) for n in names}, storage, StorageMeta(checkpoint_id=path, save_id="bench"))
    with open(os.path.join(path, ".metadata.tmp"), "wb") as f:
        pickle.dump(m, f)
    os.rename(os.path.join(path, ".metadata.tmp"), os.path.join(path, ".metadata"))


if __name__ == "__main__":
    import gc
    gc.disable()
    t = time.monotonic()
    make(sys.argv[1], *(int(a) for a in sys.argv[2:] or (1000, 1000)))
    print(f"{os.path.getsize(os.path.join(sys.argv[1], '.metadata'))} bytes in {time.monotonic() - t:.1f} s")
