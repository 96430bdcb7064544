"""torchcomms' back end "goccl": new_comm("goccl", device, name) after pip install, by an entry point."""

import atexit
import functools
from collections import deque
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torchcomms
from torch.utils._pytree import tree_map_only

from .. import errors
from .._env import place
from .backend import ProcessGroupGoccl
from .work import Work


class TorchCommGoccl(torchcomms.TorchCommBackend):  # type: ignore[misc]
    """A communicator of torchcomms on a ProcessGroupGoccl.

    torchcomms passes neither options of a call nor batches of sends and receives to back ends of Python, and has no
    windows for them.
    """

    _splits = 0

    def init(self, device: torch.device, name: str, options: Any) -> None:
        """Meets the other ranks, at options.store or the launcher's."""
        launched = place(("TORCHCOMM_RANK", "TORCHCOMM_SIZE"))
        if launched is None:
            raise errors.InvalidUsage("new_comm: the environment has neither TORCHCOMM_RANK and TORCHCOMM_SIZE nor a "
                                      "launcher's variables: set these two, or start the program with torchrun")
        rank, size = map(int, launched)
        store = options.store
        if store is None:
            store, rank, size = next(dist.rendezvous("env://", rank, size, timeout=options.timeout))
        # A name may come again on one store: each time all ranks add themselves.
        turn = (store.add(f"goccl/{name}", 1) - 1) // size
        self._begin(dist.PrefixStore(f"goccl/{name}/{turn}", store), rank, size, device, name, options.timeout)

    def _begin(self, store: Any, rank: int, size: int, device: torch.device, name: str, timeout: timedelta) -> None:
        self._device, self._comm_name = torch.device(device), name
        self._on = ProcessGroupGoccl(store, rank, size, timeout)
        self._on.eager_connect_single_device(self._device)

    def split(self, ranks: list[int], name: str, options: Any) -> "TorchCommGoccl | None":
        """A communicator of some of the ranks, in their order; None if ranks is empty."""
        rank, size = self.get_rank(), self.get_size()
        self._splits += 1
        if not ranks:
            return None
        if len(set(ranks)) != len(ranks) or not set(ranks) <= set(range(size)) or rank not in ranks:
            raise errors.InvalidArgument(f"split on rank {rank} of {size}: ranks is {list(ranks)}: pass different "
                                         "ranks of the communicator, with this one among them")
        made = TorchCommGoccl()
        store = dist.PrefixStore(f"split/{self._splits}/{name}/{min(ranks)}", self._on.get_group_store())
        made._begin(store, list(ranks).index(rank), len(ranks), self._device, f"{name}_{min(ranks)}", options.timeout)
        return made

    def finalize(self) -> None:
        """Waits for enqueued work and leaves."""
        self._on.shutdown()

    def get_rank(self) -> int:
        """This process's rank."""
        return int(self._on._rank_)

    def get_size(self) -> int:
        """The number of ranks."""
        return int(self._on._size_)

    def get_backend_name(self) -> str:
        """The name under which the back end is registered."""
        return "goccl"

    def get_comm_name(self) -> str:
        """The communicator's name."""
        return str(self._comm_name)

    def set_timeout(self, timeout: timedelta) -> None:
        """The timeout of later waits."""
        self._on.set_timeout(timeout)

    def barrier(self, async_op: bool) -> "_Kept | None":
        """Ends when every rank has come."""
        return _ended(self._on.barrier(SimpleNamespace(device=self._device)), async_op)

    def send(self, tensor: torch.Tensor, dst: int, async_op: bool) -> "_Kept | None":
        """tensor to dst."""
        return _ended(self._on.send([tensor.data], dst), async_op)

    def recv(self, tensor: torch.Tensor, src: int, async_op: bool) -> "_Kept | None":
        """tensor from src."""
        return _ended(self._on.recv([tensor.data], src), async_op)


class _Kept:
    """A Work as torchcomms holds it. torchcomms drops its reference without the interpreter's lock, so that must not be
    the last one: the newest Works have another here. The first wait drops the tensors."""

    _newest: "deque[_Kept]" = deque(maxlen=256)

    def __init__(self, work: Work) -> None:
        self._work = work
        self._newest.append(self)

    def wait(self) -> None:
        """As Work's."""
        self._work.wait()
        self._work._tensors = self._work._result = None


def _ended(work: Work, async_op: bool) -> _Kept | None:
    """What a call returns to torchcomms: nothing if the caller does not wait. A call in a backward pass waits too: DDP
    takes a future there, which torchcomms completes at once on GPUs, and on the host only when somebody waits."""
    if async_op and torch._C._current_graph_task_id() == -1:
        return _Kept(work)
    work.wait()
    return None


@functools.cache
def _one_rank() -> Any:
    """A communicator of torchcomms' gloo with one rank."""
    with mock.patch.dict("os.environ", TORCHCOMM_RANK="0", TORCHCOMM_SIZE="1"):
        comm = torchcomms.new_comm("gloo", torch.device("cpu"), "goccl/factor", store=dist.HashStore(),
                                   hints={"persistent_store": "true"})
    atexit.register(comm.finalize)
    return comm


def _reduction(op: Any) -> Any:
    """PyTorch's operator. torchcomms does not tell a back end of Python the factor of PREMUL_SUM: its gloo applies it
    to a 1."""
    if op.type != torchcomms.RedOpType.PREMUL_SUM:
        return getattr(dist.ReduceOp, op.type.name)
    one = torch.ones(1, dtype=torch.float64)
    _one_rank().all_reduce(one, op, False)
    return dist._make_nccl_premul_sum(one.item())


def _options(async_op: bool, root: int = 0, op: Any = torchcomms.ReduceOp.SUM) -> SimpleNamespace:
    return SimpleNamespace(asyncOp=async_op, rootRank=root, reduceOp=_reduction(op))


# Calls of torchcomms: ProcessGroupGoccl's method, and its arguments. t is passed as it is and [t] as the only one of a
# list; root and op go into the options.
_CALLS = {
    "broadcast": ("broadcast", ["[t]", "root"]),
    "all_reduce": ("allreduce", ["[t]", "op"]),
    "reduce": ("reduce", ["[t]", "root", "op"]),
    "all_gather": ("allgather", ["[t]", "[t]"]),
    "all_gather_v": ("allgather", ["[t]", "[t]"]),
    "all_gather_single": ("_allgather_base", ["t", "t"]),
    "reduce_scatter": ("reduce_scatter", ["[t]", "[t]", "op"]),
    "reduce_scatter_v": ("reduce_scatter", ["[t]", "[t]", "op"]),
    "reduce_scatter_single": ("_reduce_scatter_base", ["t", "t", "op"]),
    "all_to_all_single": ("alltoall_base", ["t", "t"]),
    "all_to_all_v_single": ("alltoall_base", ["t", "t", "t", "t"]),
    "all_to_all": ("alltoall", ["t", "t"]),
    "scatter": ("scatter", ["[t]", "[t]", "root"]),
    "gather": ("gather", ["[t]", "[t]", "root"]),
}


def _call(name: str) -> Any:
    method, kinds = _CALLS[name]

    def call(self: TorchCommGoccl, *arguments: Any) -> _Kept | None:
        # Results are written past autograd, as back ends of C++ do.
        *given, async_op = tree_map_only(torch.Tensor, lambda t: t.data, arguments)
        named = {k: a for k, a in zip(kinds, given) if k in ("root", "op")}
        passed = [[a] if k == "[t]" else a for k, a in zip(kinds, given) if k not in named]
        return _ended(getattr(self._on, method)(*passed, opts=_options(async_op, **named)), async_op)

    return call


for _name in _CALLS:
    setattr(TorchCommGoccl, _name, _call(_name))

torchcomms.register_backend("goccl", TorchCommGoccl)
