"""Window: memory of all ranks of a process group that each of them writes to, as torch.distributed has it."""

from typing import Any

import torch
from torch._C import _distributed_c10d as _c10d

from .. import errors
from .._dlpack import capsule
from ..nccl._one_sided import WaitSignalDesc
from .abilities import Abilities
from .work import Work

_PUT, _SIGNAL = 1, 0  # indices of signals: a put's are counted, and not waited for


class Window:
    """PyTorch's Window, which a class of Python cannot inherit from. Registering is collective, in one order."""

    def __init__(self, backend: Abilities, tensor: torch.Tensor | None = None) -> None:
        self._backend, self._tensor = backend, tensor
        self._window: Any = None
        # One of the contexts of signals, so that windows do not take each other's.
        backend.windows += 1
        self._context = backend.windows % 16
        if tensor is not None:
            self.tensor_register(tensor)

    def tensor_register(self, tensor: torch.Tensor, owning: bool = True) -> None:
        """Makes tensor this rank's part; the window keeps it alive, whatever owning is."""
        if self._window is not None:
            raise errors.InvalidUsage("the window has a tensor: call tensor_deregister first")
        self._queue = self._backend._queue(tensor)
        self._window, self._tensor = self._queue.comm.register_window(tensor, 1), tensor

    def tensor_deregister(self) -> None:
        """Ends the registration, when no rank uses it any more."""
        window, self._window, self._tensor = self._registered(), None, None
        window.close()

    def _registered(self) -> Any:
        if self._window is None:
            raise errors.InvalidUsage("the window has no tensor: call tensor_register first")
        return self._window

    def _submit(self, call: Any, tensors: Any, async_op: bool) -> Work:
        work = self._queue.submit(call, tensors, list(tensors), async_op, one_sided=True)
        if not async_op:
            work.wait()
        return work

    def put(self, tensor: torch.Tensor, dst_rank: int, target_offset_nelems: int, async_op: bool,
            opts: Any = None) -> Work:
        """Writes tensor to the part of dst_rank, at an offset in elements."""
        window = self._registered()
        return self._submit(lambda c, s: c.put_signal(tensor, dst_rank, window, target_offset_nelems, _PUT,
                                                      self._context, stream=s), (tensor,), async_op)

    def signal(self, peer_rank: int, async_op: bool, opts: Any = None) -> Work:
        """Signals a rank, after what was put before."""
        self._registered()
        return self._submit(lambda c, s: c.signal(peer_rank, _SIGNAL, self._context, stream=s), (), async_op)

    def wait_signal(self, peer_rank: int, async_op: bool, opts: Any = None) -> Work:
        """Waits for a rank's next signal. Earlier puts of that rank are then here."""
        self._registered()
        desc = WaitSignalDesc(peer_rank, 1, _SIGNAL, self._context)
        return self._submit(lambda c, s: c.wait_signal(desc, stream=s), (), async_op)

    def map_remote_tensor(self, rank: int) -> torch.Tensor:
        """A rank's part as a tensor like this rank's. It raises Unsupported where the memory cannot be mapped; what the
        backend's allocate_tensor returns can."""
        window, own = self._registered(), self._tensor
        where = (2, own.device.index) if own.is_cuda else (1, 0)
        return torch.utils.dlpack.from_dlpack(capsule(window, window.addresses()[rank], where,
                                                      str(own.dtype).rpartition(".")[2], tuple(own.shape), (),
                                                      own.nbytes))

    def get_attr(self, peer_rank: int) -> Any:
        """Loads and stores see a part as puts do."""
        return _c10d.WindowAttr()
