"""CustomizedComm: the torch integration guide's class, on goccl's algorithms or on one's own."""

import torch

from ..algorithm import Algorithm
from ..collection import AlgorithmCollectionBuilder
from ..executor import Executor
from ..comm import CommGroup
from .._types import ReduceOp
from ..utils import torch_dtype_to_mscclpp_dtype


class CustomizedComm:
    """Collectives of tensors by chosen algorithms.

    comm: the job (default: from the environment). algorithm: an all-reduce of one's own, such as goccl.compile gives;
    without it goccl's default ones, the small one below 1 MiB.
    """

    def __init__(self, comm: CommGroup | None = None, algorithm: Algorithm | None = None) -> None:
        self.comm = comm or CommGroup()
        is_program = algorithm is not None and algorithm.is_dsl_algorithm()
        self.executor = Executor(self.comm.communicator) if is_program else None
        if algorithm is not None:
            self._small = self._large = algorithm
        else:
            by = {a.name: a for a in AlgorithmCollectionBuilder().build_default_algorithms(rank=self.comm.my_rank)}
            self._small, self._large = by["default_allreduce_nvls_packet"], by["default_allreduce_nvls_with_copy"]

    def all_reduce(self, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM,
                   stream: torch.cuda.Stream | None = None) -> None:
        """Reduces a contiguous tensor in place; stream None is torch's current one."""
        algorithm = self._small if tensor.nbytes < 1 << 20 else self._large
        raw = (stream or torch.cuda.current_stream(tensor.device)).cuda_stream if tensor.is_cuda else 0
        p, n = tensor.data_ptr(), tensor.nbytes
        algorithm.execute(self.comm.communicator, p, p, n, n, torch_dtype_to_mscclpp_dtype(tensor.dtype), op, raw,
                          self.executor)

    def barrier_cpu(self) -> None:
        """Returns when every rank has called it."""
        self.comm.barrier()

    def destroy(self) -> None:
        """Leaves the job."""
        self.comm.close()
