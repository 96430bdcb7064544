"""The measured collectives: buffers, calls, and the check of their data."""

import torch
import torch.distributed as dist

NAMES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")


class Collective:
    """A collective of a size, as nccl-tests defines sizes: of all_gather the output, of reduce_scatter the input."""

    def __init__(self, job, name, size, group=None):
        self.job, self.name, self.group = job, name, group
        self.count = max(1, size // 2 // job.n) * job.n
        part = self.count // job.n
        elements = {"all_gather": (part, self.count), "reduce_scatter": (self.count, part)}
        send, recv = elements.get(name, (self.count, self.count))
        self.send = torch.zeros(send, dtype=torch.bfloat16, device=job.device)
        self.recv = self.send if name == "all_reduce" else torch.zeros(recv, dtype=torch.bfloat16, device=job.device)

    def call(self, wait=True):
        """Enqueues it; not wait: on the group's own stream. Then the result of each is for the caller to wait for."""
        g, a = self.group, not wait
        if self.name == "all_reduce":
            return dist.all_reduce(self.recv, group=g, async_op=a)
        if self.name == "all_gather":
            return dist.all_gather_into_tensor(self.recv, self.send, group=g, async_op=a)
        if self.name == "reduce_scatter":
            return dist.reduce_scatter_tensor(self.recv, self.send, group=g, async_op=a)
        if self.name == "all_to_all":
            return dist.all_to_all_single(self.recv, self.send, group=g, async_op=a)
        after, before = (self.job.rank + 1) % self.job.n, (self.job.rank - 1) % self.job.n
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, self.send, after, group=g),
                                        dist.P2POp(dist.irecv, self.recv, before, group=g)])
        for w in works if wait else ():
            w.wait()
        return works[-1]

    def data(self, rank, count):
        """What a rank sends: small integers, whose sums are exact."""
        i = torch.arange(count, device=self.job.device, dtype=torch.int32)
        return ((i * (rank + 3) + rank) % 7).to(torch.bfloat16)

    def fill(self):
        self.recv.fill_(-1)
        self.send.copy_(self.data(self.job.rank, self.send.numel()))

    def wrong(self):
        """The number of wrong elements after one call."""
        n, me, part = self.job.n, self.job.rank, self.count // self.job.n
        if self.name == "all_gather":
            want = torch.cat([self.data(r, part) for r in range(n)])
        elif self.name == "all_to_all":
            want = torch.cat([self.data(r, self.count)[me * part:(me + 1) * part] for r in range(n)])
        elif self.name == "send_recv":
            want = self.data((me - 1) % n, self.count)
        else:
            want = sum(self.data(r, self.count) for r in range(n))
            want = want[me * part:(me + 1) * part] if self.name == "reduce_scatter" else want
        return int((self.recv != want).sum())

    def clear(self):
        """Zeros: sums in place stay finite."""
        self.send.zero_()
        self.recv.zero_()
