"""Training that survives the death of a rank, as torchft's does: the survivors shrink and repeat the step, a new
process takes the place of the dead one, and the losses are those of a run in which nothing happened.

    python python/examples/elastic.py

It starts its own three processes, on the host device with CPU tensors. Every step has the same global batch, divided
among the ranks that there are.

1. Rank 1 kills itself in step 5. The others get goccl.PeerDead from their all-reduce, shrink, and repeat step 5.
2. In step 8 rank 0 makes a unique id. The launcher starts a process with it; the survivors grow.
3. The new rank gets the step, the parameters and the momentum from rank 0, and training goes on.
"""

import os
import signal
import subprocess
import sys

import torch

import goccl
import goccl.nccl as nccl

STEPS, BATCH, RANKS = 15, 12, 3
DEATH, RETURN, VICTIM = 5, 8, 1
NEW = "--new"


class Trainer:
    """The model and its optimiser, the same on every rank."""

    def __init__(self) -> None:
        torch.manual_seed(7)
        torch.set_num_threads(1)
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        for p in self.model.parameters():  # the momentum exists from the start, so that it can be received
            self.optimiser.state[p]["momentum_buffer"] = torch.zeros_like(p)

    def state(self) -> "list[torch.Tensor]":
        return [t for p in self.model.parameters() for t in (p.data, self.optimiser.state[p]["momentum_buffer"])]

    def gradients(self, step: int, rank: int, size: int) -> torch.Tensor:
        """The loss and the gradients of this rank's part of the batch, in one tensor."""
        g = torch.Generator().manual_seed(step)
        x = torch.randn(BATCH, 8, generator=g, dtype=torch.float64)
        y = x.sum(1, keepdim=True).sin()
        self.optimiser.zero_grad()
        loss = (self.model(x[rank::size]) - y[rank::size]).square().sum() / BATCH
        loss.backward()
        return torch.cat([loss.detach().view(1)] + [p.grad.flatten() for p in self.model.parameters()])

    def update(self, total: torch.Tensor) -> float:
        at = 1
        for p in self.model.parameters():
            p.grad.copy_(total[at:at + p.numel()].view_as(p))
            at += p.numel()
        self.optimiser.step()
        return total[0].item()


def worker(uid: bytes, rank: int, new: bool) -> None:
    trainer, step = Trainer(), 0
    comm = nccl.Communicator.init(RANKS, rank, nccl.UniqueId(uid))
    if new:
        step = catch_up(comm, trainer, step)
    while step < STEPS:
        if step == RETURN and comm.nranks < RANKS:
            uid = comm.get_unique_id() if comm.rank == 0 else None
            if uid is not None:
                print("grow", bytes(uid).hex(), flush=True)
            comm = comm.grow(RANKS, uid)
            step = catch_up(comm, trainer, step)
        part = trainer.gradients(step, comm.rank, comm.nranks)
        if step == DEATH and rank == VICTIM and not new:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            total = torch.empty_like(part)
            comm.all_reduce(part, total)
        except goccl.PeerDead as e:
            print(f"# rank {comm.rank} of {comm.nranks}: {e}", file=sys.stderr, flush=True)
            comm = comm.shrink(abort=True)  # the ranks agree on whom they leave out: the dead
            continue  # repeat the step
        loss = trainer.update(total)
        if comm.rank == 0:
            print("loss", step, repr(loss), comm.nranks, flush=True)
        step += 1
    comm.destroy()


def catch_up(comm: nccl.Communicator, trainer: Trainer, step: int) -> int:
    """Every rank gets the step and the state of rank 0."""
    at = torch.tensor([step])
    for t in [at] + trainer.state():
        comm.broadcast(t)
    return int(at.item())


def undisturbed() -> "list[float]":
    trainer = Trainer()
    return [trainer.update(trainer.gradients(step, 0, 1)) for step in range(STEPS)]


def start(uid: str, rank: int, *more: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, __file__, uid, str(rank), *more], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "GOCCL_DEVICE": "host"})


def launcher() -> int:
    uid = nccl.get_unique_id()  # this process serves it
    text = bytes(uid).hex()
    ranks = [start(text, r) for r in range(RANKS)]
    losses, sizes = [], []
    for line in ranks[0].stdout:
        what, *rest = line.split()
        if what == "grow":  # the dead rank's place is the last of the grown communicator
            ranks.append(start(rest[0], RANKS - 1, NEW))
        else:
            losses.append(float(rest[1]))
            sizes.append(int(rest[2]))
    ends = [p.wait() for p in ranks]
    want = undisturbed()
    worst = max((abs(a - b) for a, b in zip(losses, want)), default=1.0)
    print(f"ranks by step: {sizes}; the losses differ from an undisturbed run by at most {worst:.1e}")
    expected = [RANKS] * DEATH + [RANKS - 1] * (RETURN - DEATH) + [RANKS] * (STEPS - RETURN)
    if ends == [0, -signal.SIGKILL, 0, 0] and sizes == expected and len(losses) == STEPS and worst < 1e-12:
        print("OK")
        return 0
    print("FAILED: the processes ended with", ends)
    return 1


if __name__ == "__main__":
    if len(sys.argv) > 2:
        worker(bytes.fromhex(sys.argv[1]), int(sys.argv[2]), NEW in sys.argv)
    else:
        sys.exit(launcher())
