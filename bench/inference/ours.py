"""goccl's contenders: NCCL's interface, the fused kernels by goccl's C interface, and the operators of torch."""

import ctypes
import os

import torch

from contender import Contender
from nccl_abi import ABI
from reference import EPSILON

BFLOAT16, FLOAT8E4M3, STATIC = 9, 10, 1  # goccl.h
ALGORITHMS = {"by size": 0, "one_shot": 1, "two_shot": 2, "apart": 3}


class Request(ctypes.Structure):
    """goccl_fused_request of goccl.h."""

    _fields_ = ([(n, ctypes.c_uint64) for n in ("size", "tokens", "hidden")]
                + [(n, ctypes.c_uint32) for n in ("type", "algorithm")]
                + [(n, ctypes.c_void_p) for n in ("input", "sum", "residual", "residual_out", "weight", "norm", "quant",
                                                  "scale", "scale_out")]
                + [(n, ctypes.c_uint32) for n in ("quantisation", "quant_type")]
                + [("epsilon", ctypes.c_float), ("divided_residual", ctypes.c_uint32), ("stream", ctypes.c_size_t)])


class Shared:
    """The workspace that the contenders share."""

    workspace = None

    @classmethod
    def get(cls, job):
        if cls.workspace is None:
            from goccl.torch.fusion import FusedAllReduce

            cls.workspace = FusedAllReduce(1024, 8192, device=job.device, tune=job.cuda, name="inference")
        return cls.workspace


class Kernels(Contender):
    """The fused kernels by the C interface: calls are prepared in advance, as C programs do."""

    fused = quantises = True

    def __init__(self, algorithm):
        self.name, self.number = f"goccl fusion {algorithm}", ALGORITHMS[algorithm]
        self.plain = algorithm != "apart"  # that is the library's

    def prepare(self, job, most):
        from goccl import get_lib

        self.fusion = Shared.get(job).fusion
        lib = ctypes.CDLL(os.path.join(get_lib(), "libgoccl.so"))
        lib.goccl_last_error.restype = ctypes.c_char_p
        lib.goccl_fusion_all_reduce.argtypes = [ctypes.c_uint64, ctypes.c_void_p]
        self.lib = lib

    def _request(self, job, x):
        r = Request(size=ctypes.sizeof(Request), tokens=x.shape[0], hidden=x.shape[1], type=BFLOAT16,
                    algorithm=self.number, epsilon=EPSILON, stream=job.stream or 0)
        r.input = x.data_ptr()
        return r

    def _call(self, job, r):
        f, handle, p, lib = self.lib.goccl_fusion_all_reduce, self.fusion._handle, ctypes.byref(r), self.lib

        def call():
            if f(handle, p):
                raise RuntimeError(lib.goccl_last_error().decode())
        return call

    def all_reduce(self, job, x, out):
        r = self._request(job, x)
        r.sum = out.data_ptr()
        return self._call(job, r), out

    def all_reduce_fused(self, job, f):
        r = self._request(job, f.x)
        r.residual = r.residual_out = f.residual.data_ptr()
        r.weight = f.weight.data_ptr()
        if f.quant is None:
            r.norm = f.norm.data_ptr()
        else:
            r.quant, r.scale, r.quantisation, r.quant_type = f.quant.data_ptr(), f.scale.data_ptr(), STATIC, FLOAT8E4M3
        return self._call(job, r)


class Operators(Contender):
    """torch.ops.goccl, as a model calls them."""

    name, fused, quantises = "goccl torch.ops", True, True

    def prepare(self, job, most):
        self.workspace = Shared.get(job).name

    def all_reduce(self, job, x, out):
        f, w = torch.ops.goccl.all_reduce_out, self.workspace
        return (lambda: f(x, out, w)), out

    def all_reduce_fused(self, job, f):
        op, w = torch.ops.goccl.fused_all_reduce_out, self.workspace
        return lambda: op(f.x, f.residual, f.weight, EPSILON, f.scale if f.quant is not None else None, None,
                          f.residual, f.norm, f.quant, None, w)


def library(name="goccl"):
    """goccl's libnccl.so.2."""
    from goccl import get_lib

    return ABI(name, os.path.join(get_lib(), "libnccl.so.2"))
