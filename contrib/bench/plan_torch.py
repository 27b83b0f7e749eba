#!/usr/bin/env python3
"""How long torch's DefaultSavePlanner takes to plan a save of many ranks: plan_torch.py TENSORS RANKS [gc] -> one line of JSON.

The same tensors as save_plan.c's rows: a rank has its rows of each. Ranks' plans are made by torch's own classes and pass through pickle as a gather
does it; what is timed is create_global_plan alone (deduplicated, checked, metadata). gc: with the garbage collector as it is by default; else it is off.
"""
import gc
import json
import resource
import sys
import time

from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.planner import SavePlan

from make_metadata import local_plan, name, sent


def main(tensors, ranks, with_gc):
    gc.disable()
    names = [name(i) for i in range(tensors)]
    plans = [sent(SavePlan(local_plan(names, r, ranks, False), planner_data={n: (n,) for n in names})) for r in range(ranks)]
    planner = DefaultSavePlanner()
    planner.set_up_planner({}, None, True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if with_gc:
        gc.enable()
    t = time.monotonic()
    _, metadata = planner.create_global_plan(plans)
    t = time.monotonic() - t
    gc.disable()
    chunks = sum(len(m.chunks) for m in metadata.state_dict_metadata.values())
    print(json.dumps({"plan_s": t, "chunks": chunks, "peak_bytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), "gc" in sys.argv[3:])
    sys.stdout.flush()
    import os
    os._exit(0)  # to free all of that takes as long again
