#!/usr/bin/env python3
"""How long torch's dcp.save takes: save_torch.py DIR TENSORS RANKS save|async THREADS -> one line of JSON.

The tensors of save_ranks.c: processes over gloo, DTensors of which each rank has 16 MiB of rows. Two saves; times are those of the slowest rank, from a
barrier on. async: dcp.async_save's default; stall_s until it returns.
"""
import json
import os
import resource
import socket
import sys
import time

ROWS, COLS = 4096, 1024


def rank_main(rank, where, tensors, ranks, mode, threads, port):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(ranks))
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (ranks,))
    state = {f"model.layers.{i}.weight": DTensor.from_local(torch.full((ROWS, COLS), float(i)), mesh, [Shard(0)]) for i in range(tensors)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    out = {}
    for n in range(2):
        writer = dcp.FileSystemWriter(os.path.join(where, f"torch{n}"), thread_count=threads)
        dist.barrier()
        t = time.monotonic()
        if mode == "async":
            f = dcp.async_save(state, storage_writer=writer)
            stall = time.monotonic() - t
            f.result()
        else:
            dcp.save(state, storage_writer=writer)
            stall = 0.0
        took = torch.tensor([time.monotonic() - t, stall])
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        out.update({("save_s", "second_s")[n]: took[0].item(), ("stall_s", "second_stall_s")[n]: took[1].item()})
    rss = torch.tensor([(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024.0])
    dist.all_reduce(rss)
    if rank == 0:
        print(json.dumps({"bytes": tensors * ROWS * COLS * 4 * ranks, **out, "rss_bytes": int(rss.item())}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    import torch.multiprocessing as mp
    where, tensors, ranks, mode, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(rank_main, (where, tensors, ranks, mode, threads, port), nprocs=ranks)
