"""Algorithms of one's own in CUDA C++: kernels compiled at run time, and the description around them in Python."""

from __future__ import annotations

import os
from collections.abc import Callable

from . import errors
from ._types import DataType, ReduceOp
from .algorithm import Algorithm

__all__ = ["compile_native", "NativeModule", "NativeAlgorithm"]

_MAX = 2**64 - 1


class NativeAlgorithm(Algorithm):
    """An algorithm of four functions, called on every rank in the same order:

    initialize(comm) once for each communicator: connections, channels;
    init_context(comm, input, output, input_size, output_size, dtype) → context, once for each key: registrations, handles;
    context_key(input, output, input_size, output_size, dtype) → hashable; None: one context for each set of addresses and sizes;
    launch(context, input, output, input_size, output_size, dtype, op, stream, nblocks, nthreads, extras): enqueues the kernel.

    Addresses are ints, sizes in bytes.
    """

    def __init__(self, name: str, collective: str, *, launch: Callable, initialize: Callable | None = None, init_context: Callable | None = None,
                 context_key: Callable | None = None, min_message_size: int = 0, max_message_size: int = _MAX, tags: dict[str, int] | None = None) -> None:
        super().__init__(name, collective, (min_message_size, max_message_size), tags, doc="a kernel of the user's")
        self._launch, self._initialize, self._init_context, self._key = launch, initialize, init_context, context_key
        self._comms: dict[int, tuple] = {}
        self._contexts: dict = {}

    def execute(self, comm, input_buffer, output_buffer, input_size, output_size, dtype: DataType, op=ReduceOp.NOP, stream=0, executor=None, nblocks=0,
                nthreads_per_block=0, symmetric_memory=False, extras=None, accum_dtype=None) -> int:
        if comm.handle not in self._comms:
            if self._initialize is not None:
                self._initialize(comm)
            self._comms[comm.handle] = (comm,)
        key = self._key(input_buffer, output_buffer, input_size, output_size, dtype) if self._key else (input_buffer, output_buffer, input_size, output_size)
        context = self._contexts.get((comm.handle, key))
        if context is None:
            context = self._init_context(comm, input_buffer, output_buffer, input_size, output_size, dtype) if self._init_context else comm
            self._contexts[comm.handle, key] = context
        self._launch(context, input_buffer, output_buffer, input_size, output_size, dtype, op, stream, nblocks, nthreads_per_block, extras or {})
        return 0

    def reset(self) -> None:
        self._contexts.clear()

    def build(self) -> "NativeAlgorithm":
        """Itself."""
        return self


class NativeModule:
    """A compiled .cu file: kernel(name) is a Kernel of it, and create_<name>_algorithm what algorithm() was told under that name."""

    def __init__(self, name: str, file: str, options: tuple[str, ...] = ()) -> None:
        from .device import current_device
        from .utils import compile_source

        with open(file, encoding="utf-8") as f:
            source = f.read()
        if "pybind11" in source:
            raise errors.Unsupported(f"{file} is a pybind11 module, which needs nvcc and MSCCL++'s C++ classes: keep its kernels (extern \"C\" __global__) and "
                                     "describe the algorithm with goccl.NativeAlgorithm (docs/python.md)")
        self.name, self.device = name, current_device()
        self._image = compile_source(source, os.path.basename(file), device=self.device, options=(f"-I{os.path.dirname(os.path.abspath(file))}", *options))
        self._kernels: dict = {}

    def kernel(self, name: str):
        """The kernel of that name."""
        from .utils import Kernel

        k = self._kernels.get(name)
        if k is None:
            k = self._kernels[name] = Kernel(self._image, name, self.device)
        return k

    def algorithm(self, name: str, collective: str, **functions) -> NativeAlgorithm:
        """A NativeAlgorithm, which create_<name>_algorithm() then gives too."""
        a = NativeAlgorithm(name, collective, **functions)
        setattr(self, f"create_{name}_algorithm", lambda: a)
        return a


def compile_native(name: str, file: str, options: tuple[str, ...] = ()) -> NativeModule:
    """Compiles a .cu file for the current GPU with NVRTC, against goccl's headers and their mscclpp aliases; no nvcc, cached by content."""
    return NativeModule(name, file, options)
