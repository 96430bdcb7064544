"""ProcessGroupGoccl: torch.distributed's process group on goccl communicators."""

import atexit
import functools
import os
import weakref
from contextlib import closing
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .. import errors
from .._types import ReduceOp
from ..nccl import Communicator
from ._named import BACKEND
from ._tensors import (WIDER, Scaled, elements, entries, exchange, one, only, option, pairs, parts_of, reducible,
                       reduction, spread, staged)
from .abilities import Abilities
from .work import Work

_MOST_DIMENSIONS = 16  # of a sparse tensor

_groups: "weakref.WeakSet[ProcessGroupGoccl]" = weakref.WeakSet()


@atexit.register
def _leave() -> None:
    for g in list(_groups):
        g.shutdown()


def register() -> None:
    """Makes "goccl" a backend of torch.distributed. Twice is harmless."""
    if "goccl" not in dist.Backend.backend_list:
        dist.Backend.register_backend("goccl", create, extended_api=BACKEND, devices=["cpu", "cuda"])


def create(*arguments: Any) -> Any:
    """What torch calls for a process group: with a store, rank, size and timeout, or with the options of an extended
    backend, and options of the user's."""
    if len(arguments) == 4:
        return ProcessGroupGoccl(*arguments)
    from .group import Group

    if dist.get_debug_level() == dist.DebugLevel.DETAIL:  # PyTorch's own comparison takes no backend of Python
        os.environ.setdefault("GOCCL_CHECK", "1")
    opts, given = arguments
    backend = ProcessGroupGoccl(opts.store, opts.group_rank, opts.group_size, opts.timeout)
    if given is not None:
        backend._options = given
        given._timeout = opts.timeout
    backend._options.group_name = opts.group_id
    backend._options.global_ranks_in_group = opts.global_ranks_in_group
    backend._options.enable_reconfigure = opts.enable_reconfigure
    return Group(backend, opts.process_group)


class ProcessGroupGoccl(Abilities):
    """A process group whose collectives are goccl's: one communicator for CPU tensors and one for each GPU, made when
    they are first used.

    Tensors may be of any shape; those that are not contiguous are staged. Tags of sends and receives are ignored, as by
    NCCL: messages of one rank to another match in order.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta | None = None) -> None:
        super().__init__(store, rank, size, timeout)
        _groups.add(self)

    def __repr__(self) -> str:
        return f"ProcessGroupGoccl(rank={self._rank_}, size={self._size_})"

    # Reductions.

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        """Reduces tensors[0] in place on all ranks."""
        t = one(tensors)
        if t.is_sparse:
            return self.allreduce_sparse(tensors, opts)
        return self._reduction(t, lambda c, x, op, s: c.allreduce(x, x, op, stream=s), tensors, opts)

    def allreduce_sparse(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        """Adds up sparse tensors, which have different entries on the ranks: everybody gets all entries."""
        t = one(tensors)
        if reduction(option(opts, "reduceOp", dist.ReduceOp.SUM)) != ReduceOp.SUM:
            raise errors.InvalidArgument("all_reduce of a sparse tensor sums it: use to_dense() for other reductions")
        x = t.coalesce()
        form = [x._nnz(), x.sparse_dim(), *x.shape]
        mine = torch.tensor(form + [-1] * (_MOST_DIMENSIONS - x.dim()), device=t.device)
        every = mine.new_empty(self._size_, len(mine))
        self._allgather_base(every, mine).wait()
        if (every[:, 1:] != mine[1:]).any():
            raise errors.InvalidArgument("all_reduce of sparse tensors: numbers of sparse dimensions and shapes differ "
                                         f"between ranks: {every[:, 1:len(form)].tolist()}")
        all_of = []
        for part in (x.indices().t().contiguous(), x.values()):
            all_of.append([part.new_empty(n, *part.shape[1:]) for n in every[:, 0].tolist()])
            work = self._uneven_gather(all_of[-1], part, opts)
            work.wait()
        indices, values = map(torch.cat, all_of)
        t.copy_(torch.sparse_coo_tensor(indices.t(), values, t.shape).coalesce())
        work._result = list(tensors)
        return work

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        """Reduces several tensors in place."""
        return Work.last([self.allreduce([t], opts) for t in tensors], list(tensors))

    def reduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        """Reduces tensors[0] in place at the root."""
        t = one(tensors)
        root = option(opts, "rootRank", 0)
        at = self._rank_ == root
        return self._reduction(t, lambda c, x, op, s: c.reduce(x, x if at else None, op, root, stream=s), tensors,
                               opts, at)

    def _reduction(self, t: torch.Tensor, call: Any, result: Any, opts: Any, write: bool = True) -> Work:
        op = reduction(option(opts, "reduceOp", dist.ReduceOp.SUM))
        if not isinstance(op, (ReduceOp, Scaled)):
            return self._bitwise(t, op, result, opts, write)
        x, finish = staged(t, write)
        op, x = reducible(op, x)
        if t.dtype in WIDER:
            finish = (lambda: t.copy_(x)) if write else None
        return self._reducing(t, lambda c, known, s: call(c, x, known, s), op, (x, t), list(result), opts, finish)

    def _reducing(self, t: torch.Tensor, call: Any, op: Any, keep: tuple[torch.Tensor, ...], result: list[Any],
                  opts: Any, finish: Any) -> Work:
        """Submits call(communicator, its operator, stream)."""
        if isinstance(op, ReduceOp):
            return self._submit(t, lambda c, s: call(c, op, s), keep, result, opts, finish)

        def run(c: Communicator, s: Any) -> None:
            with closing(c.create_pre_mul_sum(op.factor)) as known:
                call(c, known, s)

        return self._submit(t, run, (*keep, op.factor), result, opts, finish)

    def _submit(self, t: torch.Tensor, call: Any, keep: tuple[Any, ...], result: list[Any], opts: Any,
                finish: Any) -> Work:
        return self._queue(t).submit(call, keep, result, option(opts, "asyncOp", True), finish)

    def _bitwise(self, t: torch.Tensor, op: Any, result: Any, opts: Any, write: bool) -> Work:
        x = t.contiguous()
        every = torch.empty((self._size_, *x.shape), dtype=x.dtype, device=x.device)

        def finish() -> None:
            if write:
                t.copy_(functools.reduce(op, every))

        return self._submit(t, lambda c, s: c.allgather(x, every, stream=s), (x, every, t), list(result), opts, finish)

    def _reduce_scatter_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        """Rank i's output is the reduction of slice i of all inputs."""
        parts_of(input, output, self._size_, "reduce_scatter")
        return self._scattered(output, [input.contiguous()], opts,
                               lambda c, known, s, y, x: c.reduce_scatter(x, y, known, stream=s))

    def _scattered(self, output: torch.Tensor, inputs: list[torch.Tensor], opts: Any, call: Any) -> Work:
        op = reduction(option(opts, "reduceOp", dist.ReduceOp.SUM))
        if not isinstance(op, (ReduceOp, Scaled)):
            raise errors.InvalidArgument("reduce-scatter has SUM, PRODUCT, MAX, MIN, AVG and PREMUL_SUM")
        y, finish = staged(output, True)
        op, y, *x = reducible(op, y, *inputs)
        if output.dtype in WIDER:
            finish = lambda: output.copy_(y)  # noqa: E731
        return self._reducing(output, lambda c, known, s: call(c, known, s, y, *x), op, (y, output, *x, *inputs),
                              [output], opts, finish)

    # torch has had several names for the forms on one tensor
    reduce_scatter_tensor = reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None) -> Work:
        """outputs[0] is the reduction of all ranks' inputs[0][rank]."""
        output = one(outputs)
        parts = entries(only(inputs, "reduce_scatter"), self._size_, output, "reduce_scatter", even=False)
        entries([parts[self._rank_]], 1, output, "reduce_scatter of this rank's part")
        if all(p.numel() == output.numel() for p in parts):
            return self._reduce_scatter_base(output, torch.cat([p.reshape(-1) for p in parts]), opts)

        def call(c: Communicator, known: Any, s: Any, y: torch.Tensor, *copies: torch.Tensor) -> None:
            for r, p in enumerate(copies):
                c.reduce(p, y if r == self._rank_ else None, known, r, stream=s)

        return self._scattered(output, [p.clone(memory_format=torch.contiguous_format) for p in parts], opts, call)

    def reduce_scatter_tensor_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor],
                                        opts: Any = None) -> Work:
        """Several reduce-scatters."""
        return Work.last([self._reduce_scatter_base(o, i, opts) for o, i in pairs(outputs, inputs, "reduce_scatter")],
                         list(outputs))

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # Movement.

    def broadcast(self, tensors: list[torch.Tensor], opts: Any = None) -> Work:
        """tensors[0] of the root to all ranks."""
        t = one(tensors)
        root = option(opts, "rootRank", 0)
        x, finish = staged(t, self._rank_ != root)
        return self._submit(t, lambda c, s: c.broadcast(x, None, root, stream=s), (x, t), list(tensors), opts, finish)

    def _allgather_base(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        """Everybody's input, in rank order."""
        parts_of(output, input, self._size_, "all_gather")
        x = input.contiguous()
        y, finish = staged(output, True)
        return self._submit(input, lambda c, s: c.allgather(x, y, stream=s), (x, y, output, input), [output], opts,
                            finish)

    all_gather_into_tensor = all_gather_single = _allgather_base

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        """outputs[0][r] is rank r's inputs[0]."""
        t = one(inputs)
        parts = entries(only(outputs, "all_gather"), self._size_, t, "all_gather", even=False)
        entries([parts[self._rank_]], 1, t, "all_gather of this rank's part")
        if any(p.numel() != t.numel() for p in parts):
            return self._uneven_gather(parts, t, opts)
        x = t.contiguous()
        every = torch.empty((self._size_, *x.shape), dtype=x.dtype, device=x.device)
        return self._submit(t, lambda c, s: c.allgather(x, every, stream=s), (x, every, t, *parts), [list(parts)], opts,
                            lambda: spread(parts, every))

    def _uneven_gather(self, parts: list[torch.Tensor], t: torch.Tensor, opts: Any) -> Work:
        x = t.contiguous()
        copies = [x if r == self._rank_ else p.new_empty(p.shape) for r, p in enumerate(parts)]

        def call(c: Communicator, s: Any) -> None:
            for r, p in enumerate(copies):
                c.broadcast(p, None, r, stream=s)

        return self._submit(t, call, (*copies, *parts), [list(parts)], opts, lambda: spread(parts, copies))

    def allgather_coalesced(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor],
                            opts: Any = None) -> Work:
        """Several gathers: outputs[r][k] is rank r's inputs[k]."""
        for o in outputs:
            pairs(o, inputs, "all_gather of a rank")
        return Work.last([self.allgather([[o[k] for o in outputs]], [t], opts) for k, t in enumerate(inputs)],
                         [list(o) for o in outputs])

    def allgather_into_tensor_coalesced(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor],
                                        opts: Any = None) -> Work:
        """Several gathers into tensors."""
        return Work.last([self._allgather_base(o, i, opts) for o, i in pairs(outputs, inputs, "all_gather")],
                         list(outputs))

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        """At the root outputs[0][r] is rank r's inputs[0]."""
        t = one(inputs)
        root = option(opts, "rootRank", 0)
        x = t.contiguous()
        parts: list[torch.Tensor] = []
        every: Any = None
        if self._rank_ == root:
            parts = entries(only(outputs, "gather"), self._size_, t, "gather")
            every = x.new_empty((self._size_, *x.shape))
        return self._submit(t, lambda c, s: c.gather(x, every, root, stream=s), (x, t, *parts, every), [list(parts)],
                            opts, lambda: spread(parts, every))

    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        """At the root output is everybody's input, in rank order."""
        root = option(opts, "rootRank", 0)
        if self._rank_ == root:
            parts_of(output, input, self._size_, "gather")
        x = input.contiguous()
        y, finish = staged(output, True) if self._rank_ == root else (None, None)
        return self._submit(input, lambda c, s: c.gather(x, y, root, stream=s), (x, input, y, output),
                            [output] if y is not None else [], opts, finish)

    gather_into_tensor = gather_single

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any = None) -> Work:
        """outputs[0] is the root's inputs[0][rank]."""
        t = one(outputs)
        root = option(opts, "rootRank", 0)
        x = None
        if self._rank_ == root:
            x = torch.cat([p.reshape(-1) for p in entries(only(inputs, "scatter"), self._size_, t, "scatter")])
        y, finish = staged(t, True)
        return self._submit(t, lambda c, s: c.scatter(x, y, root, stream=s), (x, y, t), list(outputs), opts, finish)

    def alltoall_base(self, output: torch.Tensor, input: torch.Tensor, output_splits: list[int] | None = None,
                      input_splits: list[int] | None = None, opts: Any = None) -> Work:
        """Slices of input along dimension 0 to their ranks; splits are rows, even when empty."""
        x = input.contiguous()
        y, finish = staged(output, True)
        if x.dtype != y.dtype:
            raise errors.InvalidArgument(f"all_to_all of {x.dtype} into {y.dtype}: use one type")
        if not output_splits and not input_splits:
            call = lambda c, s: c.alltoall(x, y, stream=s)  # noqa: E731
        else:
            n = self._size_
            call = exchange(x, y, elements(x, input_splits, n), elements(y, output_splits, n))
        return self._submit(input, call, (x, y, output, input), [output], opts, finish)

    all_to_all_single = alltoall_base

    def alltoall(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None) -> Work:
        """inputs[r] to rank r, whose outputs[rank] it becomes."""
        entries(inputs, self._size_, inputs[0] if inputs else torch.empty(0), "all_to_all", even=False)
        entries(outputs, self._size_, inputs[0], "all_to_all", even=False)
        send = [t.numel() for t in inputs]
        recv = [t.numel() for t in outputs]
        x = torch.cat([t.reshape(-1) for t in inputs])
        y = torch.empty(sum(recv), dtype=x.dtype, device=x.device)
        return self._submit(x, exchange(x, y, send, recv), (x, y, *outputs), list(outputs), opts,
                            lambda: spread(outputs, y.split(recv)))

    def send(self, tensors: list[torch.Tensor], dst: int, tag: int = 0) -> Work:
        """tensors[0] to dst."""
        t = one(tensors)
        x = t.contiguous()
        return self._queue(t).later(lambda c, s: c.send(x, dst, stream=s), (x, t), list(tensors))

    def recv(self, tensors: list[torch.Tensor], src: int, tag: int = 0) -> Work:
        """tensors[0] from src."""
        t = one(tensors)
        if not t.is_contiguous():
            raise errors.InvalidArgument("receive into a contiguous tensor")
        return self._queue(t).later(lambda c, s: c.recv(t, src, stream=s), (t,), list(tensors))

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> Work:
        """Not supported, as by NCCL."""
        raise errors.Unsupported("recv without src: goccl receives from a rank that is named; pass src")

    def barrier(self, opts: Any = None) -> Work:
        """Returns Work that ends when every rank has come."""
        ids = option(opts, "device_ids", None)
        device = option(opts, "device", None)
        if ids:
            device = torch.device("cuda", ids[0])
        if device is None or device.type not in ("cpu", "cuda"):
            device = next((d for d in self._queues if d.type == "cuda"), torch.device("cpu"))
        queue = self._queue(device)
        work = queue.submit(lambda c, s: c.barrier(stream=s), (), [])
        if queue.cuda:
            work.wait()
            torch.cuda.current_stream(queue.index).synchronize()
            queue.raise_failure()
        return work
