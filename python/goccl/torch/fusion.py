"""Fused all-reduces as operators of torch: torch.ops.goccl.fused_all_reduce and its forms.

A FusedAllReduce is a workspace of a process group, with a name by which the operators find it. They have fake kernels,
so torch.compile traces through them, and are enqueued on the current stream, so CUDA graphs capture them.
"""

import itertools
from collections.abc import Callable
from typing import Any, Optional, Tuple, TypeVar

import torch

from .. import errors
from .._types import DataType
from ..nccl import Communicator
from .device_queue import raw_stream

F = TypeVar("F", bound="Callable[..., Any]")

_workspaces: "dict[str, FusedAllReduce]" = {}
_numbers = itertools.count()


class FusedAllReduce:
    """A workspace of all ranks of a process group (None: the default one) for rows of up to hidden elements. Making one
    is collective.

    With tune, and on GPUs, the algorithms are measured for 1, 2, 4, … up to max_tokens rows, and each size takes the
    fastest; otherwise calls run as an all-reduce and a kernel. name is the same on all ranks; it is what the operators
    take.
    """

    def __init__(self, max_tokens: int, hidden: int, dtype: torch.dtype = torch.bfloat16, group: object = None,
                 device: "torch.device | str | None" = None, tune: bool = True, name: str = "") -> None:
        self.comm = Communicator.from_torch(group, device and torch.device(device))
        self.hidden, self.max_tokens, self.dtype = hidden, max_tokens, dtype
        self.rank, self.size = self.comm.rank, self.comm.nranks
        row = hidden * dtype.itemsize
        self.fusion = self.comm.fusion(row_bytes=(row + 15) // 16 * 16)
        if tune:
            self.fusion.tune(max_tokens, hidden, DataType.of(str(dtype).removeprefix("torch.")))
        self.name = name or f"goccl.{next(_numbers)}"
        if self.name in _workspaces:
            raise errors.InvalidArgument(f"there is a workspace {self.name!r} already: close it, or choose another "
                                         "name")
        _workspaces[self.name] = self

    def run(self, input: torch.Tensor, **outputs: object) -> None:
        """Fusion.all_reduce of a tensor whose last dimension is the row, on the current stream."""
        stream = raw_stream(input.device.index) if input.is_cuda else None
        self.fusion.all_reduce(input, hidden=input.shape[-1], stream=stream, **outputs)  # type: ignore[arg-type]

    def close(self) -> None:
        """Frees the workspace; its work has ended. Collective."""
        if _workspaces.pop(self.name, None) is not None:
            self.fusion.close()
            self.comm.destroy()


def find(name: str) -> FusedAllReduce:
    """The workspace of a name."""
    w = _workspaces.get(name)
    if w is None:
        raise errors.InvalidArgument(f"there is no workspace {name!r}: make a goccl.torch.fusion.FusedAllReduce first")
    return w


_library = torch.library.Library("goccl", "FRAGMENT")


def _operator(*written: str) -> "Callable[[F], F]":
    """Makes a function an operator of its name that writes those arguments. torch.library.custom_op does so too; its
    calls take 11 µs more, for gradients that these operators do not have."""
    def register(f: "F") -> "F":
        name, tags = f.__name__, (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
        _library.define(name + torch.library.infer_schema(f, mutates_args=written), tags=tags)
        _library.impl(name, f, "CompositeExplicitAutograd")
        if written:
            _fake(name)(lambda *args, **kwargs: None)
        return f
    return register


def _fake(name: str) -> "Callable[[F], F]":
    return torch.library.register_fake("goccl::" + name, lib=_library)


# Optional and Tuple: torch reads the schema from these, also on Python 3.9.


@_operator()
def all_reduce(input: torch.Tensor, workspace: str) -> torch.Tensor:
    """The sum of all ranks' inputs."""
    out = torch.empty_like(input)
    find(workspace).run(input, sum=out)
    return out


@_operator("out")
def all_reduce_out(input: torch.Tensor, out: torch.Tensor, workspace: str) -> None:
    """all_reduce into out."""
    find(workspace).run(input, sum=out)


@_operator()
def fused_all_reduce(input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float,
                     workspace: str) -> Tuple[torch.Tensor, torch.Tensor]:
    """norm and new residual: the sum with the residual, and its RMSNorm."""
    norm, new = torch.empty_like(input), torch.empty_like(residual)
    find(workspace).run(input, residual=residual, residual_out=new, weight=weight, epsilon=epsilon, norm=norm)
    return norm, new


@_operator("input", "residual")
def fused_all_reduce_(input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float,
                      workspace: str) -> None:
    """The same in place: input becomes the norm, residual the new residual."""
    find(workspace).run(input, residual=residual, residual_out=residual, weight=weight, epsilon=epsilon, norm=input)


@_operator("sum_out", "residual_out", "norm_out", "quant_out", "scale_out")
def fused_all_reduce_out(input: torch.Tensor, residual: Optional[torch.Tensor], weight: Optional[torch.Tensor],
                         epsilon: float, scale: Optional[torch.Tensor], sum_out: Optional[torch.Tensor],
                         residual_out: Optional[torch.Tensor], norm_out: Optional[torch.Tensor],
                         quant_out: Optional[torch.Tensor], scale_out: Optional[torch.Tensor],
                         workspace: str, algorithm: str = "") -> None:
    """Everything, into the outputs that are given."""
    find(workspace).run(input, residual=residual, weight=weight, epsilon=epsilon, scale=scale, sum=sum_out,
                        residual_out=residual_out, norm=norm_out, quant=quant_out, scale_out=scale_out,
                        algorithm=algorithm)


@_operator()
def fused_all_reduce_quant(input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float,
                           scale: Optional[torch.Tensor], dtype: torch.dtype,
                           workspace: str) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The norm quantised to dtype (int8 or float8_e4m3fn), the scales and the new residual. Without scale each row has
    its own."""
    quant, new = torch.empty_like(input, dtype=dtype), torch.empty_like(residual)
    scales = _scales(input, scale)
    find(workspace).run(input, residual=residual, residual_out=new, weight=weight, epsilon=epsilon, quant=quant,
                        scale=scale, scale_out=scales if scale is None else None)
    return quant, scales, new


def _scales(input: torch.Tensor, scale: Optional[torch.Tensor]) -> torch.Tensor:
    rows = input.numel() // input.shape[-1] if scale is None else 0
    return torch.empty((rows, 1) if scale is None else (0,), dtype=torch.float32, device=input.device)


@_fake("all_reduce")
def _(input: torch.Tensor, workspace: str) -> torch.Tensor:
    return torch.empty_like(input)


@_fake("fused_all_reduce")
def _(input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float,
      workspace: str) -> Tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(input), torch.empty_like(residual)


@_fake("fused_all_reduce_quant")
def _(input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, epsilon: float,
      scale: Optional[torch.Tensor], dtype: torch.dtype,
      workspace: str) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.empty_like(input, dtype=dtype), _scales(input, scale), torch.empty_like(residual)
