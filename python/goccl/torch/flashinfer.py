"""flashinfer.comm's names for fused all-reduces, on goccl: programs change the import.

    from goccl.torch.flashinfer import AllReduceFusionPattern, allreduce_fusion, create_allreduce_fusion_workspace

Quantisation to FP4 and the fusions of experts are not there. Options about launches (launch_with_pdl,
trigger_completion_at_end), about accumulation (fp32_acc: sums always are in float) and layouts are accepted and have no
effect.
"""

from typing import Any

import torch

from .. import errors
from .fusion import FusedAllReduce

__all__ = ["AllReduceFusionPattern", "AllReduceFusionWorkspace", "allreduce_fusion",
           "create_allreduce_fusion_workspace"]


class AllReduceFusionPattern:
    """What follows the all-reduce. With Out in its name a pattern writes the norm, too."""

    kAllReduce = 0
    kARResidualRMSNorm = 1
    kARResidualRMSNormFP8Quant = 2
    kARResidualRMSNormFP4Quant = 3
    kARResidualRMSNormOutFP8Quant = 4
    kARResidualRMSNormOutFP4Quant = 5


class AllReduceFusionWorkspace:
    """What create_allreduce_fusion_workspace makes."""

    backend = "goccl"

    def __init__(self, inner: FusedAllReduce) -> None:
        self.inner, self.world_size, self.rank = inner, inner.size, inner.rank
        self._scales: dict[tuple[float, torch.device], torch.Tensor] = {}

    def is_buffer_size_sufficient(self, tp_size: int, num_tokens: int, hidden_dim: int, dtype: torch.dtype,
                                  use_oneshot: bool | None = None) -> bool:
        """Whether the workspace takes such a call: any size, for the ranks that it has."""
        return tp_size == self.world_size

    def scale(self, value: Any, device: torch.device) -> torch.Tensor:
        """A scale as a tensor on a device; numbers are kept, for graphs."""
        if isinstance(value, torch.Tensor):
            return value
        key = (float(value), device)
        if key not in self._scales:
            self._scales[key] = torch.tensor([value], dtype=torch.float32, device=device)
        return self._scales[key]

    def destroy(self) -> None:
        """Frees the workspace. Collective."""
        self.inner.close()


def create_allreduce_fusion_workspace(backend: str = "auto", world_size: int | None = None, rank: int | None = None,
                                      max_token_num: int = 1024, hidden_dim: int = 8192,
                                      dtype: torch.dtype = torch.bfloat16, gpus_per_node: int | None = None,
                                      comm_backend: Any = None, force_oneshot_support: bool = False,
                                      group: Any = None, tune: bool = True) -> AllReduceFusionWorkspace:
    """A workspace of a process group (None: the default one). Collective."""
    w = AllReduceFusionWorkspace(FusedAllReduce(max_token_num, hidden_dim, dtype, group, tune=tune))
    if world_size not in (None, w.world_size) or rank not in (None, w.rank):
        w.destroy()
        raise errors.InvalidArgument(f"rank {rank} of {world_size}: the process group says {w.rank} of {w.world_size}")
    return w


def allreduce_fusion(input: torch.Tensor, workspace: AllReduceFusionWorkspace, pattern: int,
                     launch_with_pdl: bool = False, trigger_completion_at_end: bool = True,
                     output: torch.Tensor | None = None, residual_out: torch.Tensor | None = None,
                     norm_out: torch.Tensor | None = None, quant_out: torch.Tensor | None = None,
                     scale_out: torch.Tensor | None = None, residual_in: torch.Tensor | None = None,
                     rms_gamma: torch.Tensor | None = None, rms_eps: float = 1e-6, scale_factor: Any = None,
                     layout_code: int | None = None, use_oneshot: bool | None = None, fp32_acc: bool = False,
                     **experts: Any) -> torch.Tensor:
    """An all-reduce and what the pattern says; returns the output, the norm, or the quantised norm."""
    p = AllReduceFusionPattern
    unknown = [k for k, v in experts.items() if v is not None]
    if unknown or pattern not in (p.kAllReduce, p.kARResidualRMSNorm, p.kARResidualRMSNormFP8Quant,
                                  p.kARResidualRMSNormOutFP8Quant):
        raise errors.Unsupported(f"pattern {pattern}{' with ' + ', '.join(unknown) if unknown else ''}: goccl has the "
                                 "all-reduce, with residual and RMSNorm, and with FP8")
    algorithm = "" if use_oneshot is None else "one_shot" if use_oneshot else "two_shot"
    quantises = pattern in (p.kARResidualRMSNormFP8Quant, p.kARResidualRMSNormOutFP8Quant)
    if pattern == p.kAllReduce:
        residual_in = rms_gamma = residual_out = norm_out = None
        output = torch.empty_like(input) if output is None else output
    else:
        if residual_in is None or rms_gamma is None:
            raise errors.InvalidArgument("a pattern with RMSNorm needs residual_in and rms_gamma")
        residual_out = torch.empty_like(residual_in) if residual_out is None else residual_out
        if norm_out is None and pattern != p.kARResidualRMSNormFP8Quant:
            norm_out = torch.empty_like(input)
    scale = None
    if quantises:
        quant_out = torch.empty_like(input, dtype=torch.float8_e4m3fn) if quant_out is None else quant_out
        if scale_factor is not None:
            scale, scale_out = workspace.scale(scale_factor, input.device), None
        elif scale_out is None:
            raise errors.InvalidArgument("FP8 needs scale_factor, or scale_out for a scale of each row")
    else:
        quant_out = scale_out = None
    torch.ops.goccl.fused_all_reduce_out(input, residual_in, rms_gamma, rms_eps, scale, output, residual_out, norm_out,
                                         quant_out, scale_out, workspace.inner.name, algorithm)
    if quantises and quant_out is not None:
        return quant_out
    out = output if pattern == p.kAllReduce else norm_out
    assert out is not None
    return out
