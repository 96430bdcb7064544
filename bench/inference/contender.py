"""Contender: the measured operations, and how a peer takes part.

GOCCL_PEERS names a folder. Each *.py file in it has a function contenders(), which returns a list of Contenders.
"""

import importlib.util
import os
import pathlib
import sys


class Contender:
    """An all-reduce, a fused all-reduce, or both, of bfloat16. Its methods are called on all ranks in the same order.

    name     what tables call it; version: the library's, if it has one
    default  whether the library chooses by itself; others are configured by hand
    plain    whether it has an all-reduce; fused: all-reduce + residual + RMSNorm; quantises: the same and FP8
    """

    name = version = ""
    default = False
    plain = True
    fused = False
    quantises = False

    def prepare(self, job, most):
        """Makes what calls of up to so many bytes need. Once, before the first call. An exception leaves it out."""

    def takes(self, job, rows, hidden):
        """Whether it takes a message of this shape."""
        return True

    def input(self, job, shape):
        """Memory from which it reduces without a copy: shared by all contenders without special memory."""
        return job.buffer("x", shape)

    def all_reduce(self, job, x, out):
        """(call, result): call() enqueues on job.stream the sum of all ranks' x; result is the tensor that gets it:
        out, or x, or one of its own. x and out are rows of a hidden size, and outlive the calls. What can be made ready
        ahead is made here."""
        raise NotImplementedError

    def all_reduce_fused(self, job, f):
        """call: enqueues residual += sum of all ranks' f.x; f.norm = RMSNorm(residual); f.quant = that / f.scale. f is
        a fused.Call, which outlives the calls; f.norm is given without f.quant, and the other way round."""
        raise NotImplementedError

    def captured(self, job):
        """After a capture has ended, before its first replay. Collective."""


def peers():
    """The contenders of the folder in GOCCL_PEERS."""
    folder = os.environ.get("GOCCL_PEERS")
    if not folder:
        return []
    if not os.path.isdir(folder):
        raise SystemExit(f"GOCCL_PEERS={folder}: there is no such folder")
    sys.path.append(folder)
    found = []
    for path in sorted(pathlib.Path(folder).glob("*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found += module.contenders()
    return found
