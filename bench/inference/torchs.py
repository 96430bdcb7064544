"""What PyTorch brings: process groups, symmetric memory (never by multicast), a norm."""

import os

import torch
import torch.distributed as dist

from contender import Contender
from nccl_abi import ABI
from reference import EPSILON


class ProcessGroup(Contender):
    """torch.distributed's all-reduce, in place, by a backend; with goccl preloaded, nccl is goccl."""

    default = True

    def __init__(self, name, backend):
        self.name, self.backend = name, backend

    def prepare(self, job, most):
        self.group = dist.new_group(backend=self.backend)
        dist.all_reduce(torch.ones(8, device=job.device), group=self.group)

    def all_reduce(self, job, x, out):
        return (lambda: dist.all_reduce(x, group=self.group)), x


class Symmetric(Contender):
    """torch.ops.symm_mem: x lies in symmetric memory, or is copied there."""

    def __init__(self, shots, copies=False):
        self.name = f"symm_mem {shots}-shot" + (", with a copy" if copies else "")
        self.shots, self.copies, self.memory = shots, copies, None

    def prepare(self, job, most):
        if not job.cuda:
            raise RuntimeError("there is no symmetric memory without GPUs")
        if os.environ.get("TORCH_SYMM_MEM_DISABLE_MULTICAST") != "1":
            raise RuntimeError("TORCH_SYMM_MEM_DISABLE_MULTICAST=1 is not set")
        import torch.distributed._symmetric_memory as symm_mem

        self.group = dist.group.WORLD.group_name
        self.memory = symm_mem.empty(most // 2, dtype=torch.bfloat16, device=job.device)
        handle = symm_mem.rendezvous(self.memory, group=self.group)
        if handle.multicast_ptr:
            raise RuntimeError("symmetric memory has a multicast address: it must not")

    def input(self, job, shape):
        if self.copies:
            return super().input(job, shape)
        return self.memory[:shape[0] * shape[1]].view(shape)

    def all_reduce(self, job, x, out):
        ops, group = torch.ops.symm_mem, self.group
        mine = self.memory[:x.numel()].view(x.shape)
        if self.shots == "one":
            op, result = (lambda: ops.one_shot_all_reduce_out(mine, "sum", group, out)), out
        else:
            op, result = (lambda: ops.two_shot_all_reduce_(mine, "sum", group)), mine
        if not self.copies:
            return op, result

        def call():
            mine.copy_(x)
            op()
        return call, result


class ThenNorm(Contender):
    """An all-reduce, and kernels for the rest: a peer's norm, or torch's."""

    plain, fused = False, True

    def __init__(self, first, norms=None):
        self.first, self.norms = first, norms
        self.name = f"{first.name}, then " + (f"{norms.name}'s norm" if norms else "torch's norm (3 kernels)")
        self.quantises = norms is not None

    def prepare(self, job, most):
        if isinstance(self.first, ABI) and not self.first.comm:
            raise RuntimeError(f"there is no {self.first.name}")

    def takes(self, job, rows, hidden):
        return self.first.takes(job, rows, hidden)

    def input(self, job, shape):
        return self.first.input(job, shape)

    def captured(self, job):
        self.first.captured(job)

    def all_reduce_fused(self, job, f):
        reduced = torch.empty_like(f.x) if f.norm is None else f.norm
        reduce, result = self.first.all_reduce(job, f.x, reduced)
        assert result is reduced
        norm = self.norms.norm(job, f, reduced) if self.norms else self._torch(f, reduced)

        def call():
            reduce()
            norm()
        return call

    @staticmethod
    def _torch(f, reduced):
        def call():
            f.residual.add_(reduced)
            reduced.copy_(torch.nn.functional.rms_norm(f.residual, (f.residual.shape[1],), f.weight, EPSILON))
        return call
