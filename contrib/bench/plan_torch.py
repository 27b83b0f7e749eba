#!/usr/bin/env python3
"""How long torch's DefaultSavePlanner takes to plan a save of many ranks: plan_torch.py TENSORS RANKS -> one line of JSON.

The same tensors as save_plan.c's rows: a rank has its rows of each. Ranks' plans are made by torch's own classes and pass through pickle as a gather
does it; what is timed is create_global_plan alone (deduplicated, checked, metadata), with the garbage collector off and then as it is by default.
The dimension that is cut is the longest: along a shorter one torch 2.13 compares every box of a tensor with every other.
"""
import gc
import json
import os
import resource
import sys
import time

from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.planner import SavePlan

import make_metadata
from make_metadata import local_plan, name, sent

make_metadata.ROWS = 64  # of a rank, as in save_plan.c


def plan(plans):
    planner = DefaultSavePlanner()
    planner.set_up_planner({}, None, True)
    t = time.monotonic()
    _, metadata = planner.create_global_plan(plans)
    t = time.monotonic() - t
    return t, sum(len(m.chunks) for m in metadata.state_dict_metadata.values())


def main(tensors, ranks):
    gc.disable()
    names = [name(i) for i in range(tensors)]
    plans = [sent(SavePlan(local_plan(names, r, ranks, False), planner_data={n: (n,) for n in names})) for r in range(ranks)]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    off, chunks = plan(plans)
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    gc.enable()
    on, _ = plan(plans)
    print(json.dumps({"gc off": off, "gc on": on, "chunks": chunks, "peak_bytes": peak}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
    os._exit(0)  # to free all of that takes as long again
