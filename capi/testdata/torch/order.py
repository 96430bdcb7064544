"""The order of one communicator's work through PyTorch: captures, replays and eager calls on streams without events
between them; then a late goodbye.

NCCL orders all of it by the host's calls. torchrun starts one rank per GPU; every result is checked on the GPU.
"""

import argparse
import time

import common

ROUNDS = {"forked": 100, "beside": 200, "graphs": 100}
COUNT = 512  # 2 KB of floats
OPS = 4


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expect", choices=["goccl", "stock"])
    parser.add_argument("--json")
    parser.add_argument("--limit", type=int, default=50, help="seconds until this rank ends itself")
    parser.add_argument("--late", type=float, default=3,
                        help="seconds by which rank 0 says goodbye later than the others")
    args = parser.parse_args()
    common.bounded(args.limit)

    import torch
    import torch.distributed as dist

    store, rank, world = common.join()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", store=store, rank=rank, world_size=world,
                            device_id=torch.device("cuda", torch.cuda.current_device()))
    work = Work(torch, dist, rank, world)
    dist.all_reduce(work.source.clone())
    library = common.check_library(args.expect)
    wrong = {name: getattr(work, name)(rounds) for name, rounds in ROUNDS.items()}
    board = common.Board(store, rank, world)
    everyone = board.exchange(wrong)

    # The ranks leave seconds apart; no call of any of them may raise.
    if rank == 0:
        time.sleep(args.late)
    begin = common.now()
    dist.destroy_process_group()
    left = board.exchange(common.now() - begin)
    if rank == 0:
        total = {name: sum(w[name] for w in everyone) for name in ROUNDS}
        common.write_json(args.json, {"library": library, "ranks": world, "rounds": ROUNDS, "wrong": total,
                                      "late_s": args.late, "destroy_s": left})
        failed = sum(1 for n in total.values() if n)
        print(f"order on {library}: {total} wrong elements, goodbyes took {[round(s, 2) for s in left]} s")
        print(f"order: {len(total) + 1 - failed} passed, {failed} failed", flush=True)
    return 1 if any(any(w.values()) for w in everyone) else 0


class Work:
    """Buffers of one rank, and the three programs. Each returns how many elements were wrong."""

    def __init__(self, torch, dist, rank, world):
        self.torch, self.dist, self.rank, self.world = torch, dist, rank, world
        self.index = torch.arange(COUNT, device="cuda", dtype=torch.float32)
        self.source = torch.zeros(COUNT, device="cuda")
        self.wrong = torch.zeros((), device="cuda", dtype=torch.int64)

    def values(self, rank, salt):
        return (self.index * 3 + rank * 5 + salt * 7) % 23

    def expected(self, salt):
        return sum(self.values(r, salt) for r in range(self.world))

    def count(self, outputs, salt, wrong):
        want = self.expected(salt)
        for i, out in enumerate(outputs):
            wrong += (out != want + i * self.world).sum()
            out.fill_(-1)

    def buffers(self):
        return [self.torch.full((COUNT,), -1.0, device="cuda") for _ in range(OPS)]

    def reduce(self, out, source, i):
        out.copy_(source + i)
        self.dist.all_reduce(out)

    def captured(self, outputs, source, streams):
        """A graph of all-reduces that go to streams in turn; no edge joins these before the end."""
        torch = self.torch
        graph, origin = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=origin):
            for s in streams:
                s.wait_stream(origin)
            for i, out in enumerate(outputs):
                with torch.cuda.stream(streams[i % len(streams)] if streams else origin):
                    self.reduce(out, source, i)
            for s in streams:
                origin.wait_stream(s)
        torch.cuda.synchronize()
        return graph

    def forked(self, rounds):
        """One communicator, two streams of one capture without an edge between them."""
        torch, outputs = self.torch, self.buffers() + self.buffers()
        wrong = torch.zeros((), device="cuda", dtype=torch.int64)
        graph = self.captured(outputs, self.source, [torch.cuda.Stream(), torch.cuda.Stream()])
        for salt in range(rounds):
            self.source.copy_(self.values(self.rank, salt))
            graph.replay()
            self.count(outputs, salt, wrong)
        torch.cuda.synchronize()
        return int(wrong)

    def beside(self, rounds):
        """A graph replayed on one stream beside eager all-reduces on another."""
        return self.both(rounds, None)

    def graphs(self, rounds):
        """Two graphs of one communicator, replayed on two streams."""
        outputs, source = self.buffers(), self.torch.zeros(COUNT, device="cuda")
        return self.both(rounds, (self.captured(outputs, source, []), outputs, source))

    def both(self, rounds, second):
        torch, outputs = self.torch, self.buffers()
        graph = self.captured(outputs, self.source, [])
        a, b = torch.cuda.Stream(), torch.cuda.Stream()
        graph2, outputs2, source2 = second or (None, self.buffers(), torch.zeros(COUNT, device="cuda"))
        wrong, wrong2 = torch.zeros(2, device="cuda", dtype=torch.int64)
        torch.cuda.synchronize()
        for salt in range(rounds):
            with torch.cuda.stream(a):
                self.source.copy_(self.values(self.rank, salt))
                graph.replay()
                self.count(outputs, salt, wrong)
            with torch.cuda.stream(b):
                source2.copy_(self.values(self.rank, salt))
                if graph2 is not None:
                    graph2.replay()
                else:
                    for i, out in enumerate(outputs2):
                        self.reduce(out, source2, i)
                self.count(outputs2, salt, wrong2)
        torch.cuda.synchronize()
        return int(wrong + wrong2)


if __name__ == "__main__":
    raise SystemExit(main())
