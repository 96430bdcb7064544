"""Dispatch and combine of a mixture of experts on all GPUs of a host: goccl's kernels, DeepEP's, NCCL EP's, and
all_to_all_single of the same rows on NCCL and on goccl. Each result is checked before it is timed.

    torchrun --nproc_per_node=N bench/moe/measure.py --json FILE

$DEEP_EP is a folder with DeepEP's package deep_ep and its extension, built without NVSHMEM, $DEEP_EP_V2 one with
DeepEP V2's; without them they are left out. DeepEP V2 and NCCL EP (--nccl-ep) need NCCL 2.30 in the process, by
LD_PRELOAD where PyTorch brings an older one. A library that fails on all ranks is left out of the rest, and the file
says why. Without GPUs the host device runs goccl's part, which says nothing about GPUs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

import buffers
import elastic
import exchange
import goccl
import goccl.moe
import goccl.torch
import nccl_ep
from clock import Clock
from routing import Routing

if TYPE_CHECKING:
    from collections.abc import Iterator


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tokens", type=int, nargs="+", default=[4096, 128], help="of each rank")
    p.add_argument("--hidden", type=int, default=7168)
    p.add_argument("--top-k", type=int, default=8)
    p.add_argument("--experts", type=int, default=256)
    p.add_argument("--sms", type=int, nargs="+", default=[12, 16, 20, 24, 64], help="of goccl's kernels; 16 "
                   "and, of few tokens, 64 are its defaults")
    p.add_argument("--deep-ep-sms", type=int, nargs="+", default=[12, 16, 20, 24, 64], help="its default is 20")
    p.add_argument("--peer-sms", type=int, nargs="+", default=[16, 24], help="of DeepEP V2 and NCCL EP")
    p.add_argument("--nccl-ep", action="store_true", help="measure the package nccl.ep, too")
    p.add_argument("--calls", type=int, default=20, help="in a graph, and between two events")
    p.add_argument("--repeats", type=int, default=20)
    p.add_argument("--json", help="where the figures go")
    return p.parse_args()


def head(cuda: bool) -> dict:
    """What a file of figures says of its run."""
    try:
        build = json.loads(subprocess.run(["goccl", "version", "--json"], capture_output=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        build = dict(goccl.version)
    machine = {"processors": os.cpu_count(), "system": platform.platform()}
    if cuda:
        machine |= {"gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
                    "cuda": torch.version.cuda, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    return {"schema": "goccl-moe/1", "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "command": [os.path.basename(sys.argv[0]), *sys.argv[1:]], "build": build, "torch": torch.__version__,
            "machine": machine}


@contextlib.contextmanager
def noting(failures: dict[str, str], name: str, clock: Clock) -> Iterator[None]:
    """Notes why a library failed on some rank. Collective."""
    failure = ""
    try:
        yield
    except Exception as e:  # of foreign libraries, too
        failure = f"{type(e).__name__}: {e}"
    found = [f"rank {p}: {f}" for p, f in enumerate(clock.all(failure)) if f]
    if found:
        failures[name] = "; ".join(found)


def libraries(args: argparse.Namespace, ranks: int, clock: Clock, device: torch.device,
              failures: dict[str, str]) -> list[buffers.Buffers | elastic.Elastic | nccl_ep.NCCLEP]:
    size = goccl.moe.Config().get_nvl_buffer_size_hint(2 * args.hidden, ranks)
    if max(args.tokens) > 4096:
        size = size * max(args.tokens) // 4096
    all_: list[buffers.Buffers | elastic.Elastic | nccl_ep.NCCLEP] = []
    for name, zero_copy in (("goccl", False), ("goccl, zero copy", True)):
        own = goccl.moe.Buffer(dist.group.WORLD, size)
        all_.append(buffers.Buffers(name, goccl.moe, own, args.sms, tuned=False, zero_copy=zero_copy))
    with noting(failures, "DeepEP", clock):
        peer = buffers.deep_ep() if clock.cuda else None
        if peer is not None:
            buffer = peer.Buffer(dist.group.WORLD, 2_000_000_000, explicitly_destroy=True)
            all_.append(buffers.Buffers("DeepEP", peer, buffer, args.deep_ep_sms, tuned=True))
    with noting(failures, elastic.Elastic.name, clock):
        peer = elastic.deep_ep() if clock.cuda else None
        if peer is not None:
            all_.append(elastic.Elastic(peer, args.peer_sms, max(args.tokens), args.hidden, args.top_k))
    with noting(failures, nccl_ep.NCCLEP.name, clock):
        if args.nccl_ep and clock.cuda:
            import nccl.ep as peer

            communicator = dist.group.WORLD._get_backend(device)._comm_ptr()
            all_.append(nccl_ep.NCCLEP(peer, communicator, args.peer_sms))
    return all_


def figures(args: argparse.Namespace, rank: int, ranks: int, clock: Clock, device: torch.device,
            failures: dict[str, str]) -> Iterator[dict]:
    groups = {"goccl": dist.new_group(backend="goccl")}
    if clock.cuda:
        groups["NCCL"] = dist.group.WORLD
    used = libraries(args, ranks, clock, device, failures)
    for tokens in args.tokens:
        r = Routing(tokens, args.hidden, args.top_k, args.experts, ranks, rank, device)
        ready: dict[tuple, list[dict]] = {}  # by what compares: libraries take turns
        for library in [u for u in used if u.name not in failures]:
            with noting(failures, library.name, clock):
                for f in library.measure(clock, r):
                    ready.setdefault((f["sms"], f["operation"], f["type"]), []).append({"tokens": tokens, **f})
        for name, group in groups.items():
            for f in exchange.measure(name, group, r):
                ready.setdefault((0, f["operation"], f["type"]), []).append({"tokens": tokens, **f})
        for together in ready.values():
            turn = [f for f in together if f["library"] not in failures]
            calls = [f.pop("call") for f in turn]
            for f, eager, graph in zip(turn, clock.eager_turns(calls), clock.graph_turns(calls)):
                yield {**f, "eager": eager, "graph": graph}
    for library in [u for u in used if u.name not in failures]:
        library.destroy()


def main() -> None:
    args = arguments()
    cuda = torch.cuda.is_available()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        dist.init_process_group("gloo")
    clock = Clock(dist.new_group(backend="gloo"), cuda, args.calls, args.repeats)
    failures: dict[str, str] = {}
    report = {**head(cuda), "ranks": ranks, "hidden": args.hidden, "top_k": args.top_k, "experts": args.experts,
              "failures": failures, "figures": []}
    if rank == 0:
        print("| tokens | operation | type | library | SMs | eager, us | graph, us | rows | |\n" + "|---" * 9 + "|")
    for f in figures(args, rank, ranks, clock, device, failures):
        if rank != 0:
            continue
        graph = f["graph"] if isinstance(f["graph"], str) else f"{f['graph']:.1f}"
        print(f"| {f['tokens']} | {f['operation']} | {f['type']} | {f['library']} | {f.get('sms', '')} "
              f"| {f['eager']:.1f} | {graph} | {f['rows']} | {f.get('configuration', '')} |", flush=True)
        report["figures"].append(f)
        if args.json:  # after each figure, so that an end by force leaves those before
            with open(args.json, "w") as out:
                json.dump(report, out, indent=1)
    if rank == 0:
        for name, why in failures.items():
            print(f"{name}: {why}", file=sys.stderr, flush=True)
        if args.json and failures:
            with open(args.json, "w") as out:
                json.dump(report, out, indent=1)
    if failures:
        clock.all(None)
        os._exit(1)  # a failed operation may still use its memory
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
