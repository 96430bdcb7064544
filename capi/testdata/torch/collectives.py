#!/usr/bin/env python3
"""Every collective of torch.distributed against references computed on the CPU from seeds.

    torchrun --nproc_per_node=N collectives.py [--only FAMILY...] [--quick] [--expect goccl|stock] [--json FILE]

Prints a line a family and "N passed, N failed" last; the exit status is not 0 if anything failed. A check is one
buffer of one rank. Buffers lie between guard bytes, at odd offsets too, and the guards are checked. Values are small
integers, whose results are exact in any order of summing, and also real numbers, within rounding. Ranks tell each
other their results through the launcher's store, so that a broken library cannot hide its own failures. """

import argparse
import datetime
import os
import sys

from common import Board, bounded, check_library, join, libraries
from moves import all_gather, all_to_all, barrier, broadcast, coalesced, gather_and_scatter, objects, send_recv
from programs import (asynchronous, forked_workers, functional, graphs, groups, large, memory_pool, mesh, reallocated,
                      same_everywhere, split, streams)
from reductions import all_reduce, complex_and_shapes, premultiplied_sum, reduce, reduce_scatter
from suite import LIMIT, Suite

import torch
import torch.distributed as dist

FAMILIES = [all_reduce, premultiplied_sum, complex_and_shapes, reduce, reduce_scatter, broadcast, all_gather,
            gather_and_scatter, all_to_all, send_recv, objects,
            barrier, coalesced, asynchronous, streams, same_everywhere, groups, split, mesh, functional, graphs,
            forked_workers, memory_pool, reallocated, large]
# for a second configuration
QUICK = [complex_and_shapes, send_recv, objects, barrier, coalesced, streams, groups, graphs, reallocated]
# in a process group that was destroyed and made again
AGAIN = [complex_and_shapes, objects, barrier, asynchronous, groups]


def start(s, store, bound):
    """A process group, the n-th of this process: bound to its device from the start (eager), or not (communicators
    come up at the first use)."""
    s.generation += 1
    s.bound = bound
    device = torch.device("cuda", torch.cuda.current_device())
    dist.init_process_group("nccl", store=dist.PrefixStore(f"group{s.generation}", store), rank=s.rank,
                            world_size=s.world,
                            timeout=datetime.timedelta(seconds=45), **({"device_id": device} if bound else {}))
    x = torch.ones(1, device="cuda")
    dist.all_reduce(x)
    s.same("first all_reduce", x.item(), float(s.world))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="*", default=[], choices=[f.__name__ for f in FAMILIES])
    p.add_argument("--quick", action="store_true", help="fewer families and no second process group")
    p.add_argument("--expect", choices=("goccl", "stock"), help="fail unless this library answers")
    p.add_argument("--json")
    args = p.parse_args()
    bounded(LIMIT)
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    store, rank, world = join()
    s = Suite(Board(dist.PrefixStore("board", store), rank, world), args.expect)
    s.json = args.json

    families = [f for f in FAMILIES if f.__name__ in args.only] or (QUICK if args.quick else FAMILIES)
    s.run("init", lambda s: start(s, store, bound=True))
    answers = check_library(args.expect)
    if rank == 0:
        print(f"{world} ranks, PyTorch {torch.__version__}, {answers}: {', '.join(libraries())}", flush=True)
    for f in families:
        s.run(f.__name__, f)
    if not args.quick and not args.only:
        for bound in (False, True, False):
            s.run(f"destroy {s.generation}", lambda s: dist.destroy_process_group())
            s.run(f"create {s.generation + 1}", lambda s: start(s, store, bound))
            for f in AGAIN if not bound else AGAIN[:2]:
                s.run(f"{f.__name__} ({s.generation})", f)
    s.run("last destroy", lambda s: dist.destroy_process_group())
    good = s.finish()
    s.board.exchange("end")  # nobody takes the store away before the others have read it
    sys.exit(not good)


if __name__ == "__main__":
    main()
