"""Algorithms of one's own: kernels compiled at run time, and Python functions around them."""

import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ._extension import binding, compile_extension
from ._types import DataType, ReduceOp
from ._typing import Arch, StreamSpec
from .algorithm import MAX_SIZE, Algorithm
from .communicator import Communicator
from .device import Device, current_device
from .utils import Kernel, KernelBuilder

__all__ = ["compile_native", "NativeModule", "NativeAlgorithm"]


class NativeAlgorithm(Algorithm):
    """An algorithm of four functions, called on every rank in the same order:

    initialize(comm), once for each communicator: makes connections;
    init_context(comm, input, output, input_size, output_size, dtype) → context, once for each key: registers memory and
    makes channels;
    context_key(input, output, input_size, output_size, dtype) → hashable. None: one context for each set of addresses
    and sizes;
    launch(context, input, output, input_size, output_size, dtype, op, stream, nblocks, nthreads, extras): enqueues the
    kernel.

    Addresses are ints, sizes are in bytes.
    """

    def __init__(self, name: str, collective: str, *, launch: Callable[..., Any],
                 initialize: Callable[..., Any] | None = None, init_context: Callable[..., Any] | None = None,
                 context_key: Callable[..., Any] | None = None, min_message_size: int = 0,
                 max_message_size: int = MAX_SIZE, tags: dict[str, int] | None = None) -> None:
        super().__init__(name, collective, (min_message_size, max_message_size), tags, doc="a kernel of the user's")
        self._launch, self._initialize, self._init_context, self._key = launch, initialize, init_context, context_key
        self._comms: dict[int, Communicator] = {}
        self._contexts: dict[Any, Any] = {}

    _blocks_are_the_callers = True

    def _execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int,
                 dtype: DataType, op: ReduceOp, stream: StreamSpec, executor: Any, nblocks: int,
                 nthreads_per_block: int, extras: dict[str, int] | None) -> None:
        call = input_buffer, output_buffer, input_size, output_size
        if comm.handle not in self._comms:
            if self._initialize is not None:
                self._initialize(comm)
            self._comms[comm.handle] = comm
        key = comm.handle, self._key(*call, dtype) if self._key is not None else call
        context = self._contexts.get(key)
        if context is None:
            context = self._contexts[key] = self._init_context(comm, *call, dtype) if self._init_context else comm
        self._launch(context, *call, dtype, op, stream, nblocks, nthreads_per_block, extras or {})

    def reset(self) -> None:
        self._contexts.clear()


class NativeModule:
    """A compiled .cu file. kernel(name) is one of its kernels; algorithm() adds an algorithm, which
    create_<name>_algorithm() then gives."""

    def __init__(self, name: str, file: str, options: Sequence[str] = (), *, device: "Device | None" = None,
                 include_dirs: Sequence[str | os.PathLike[str]] = (), arch: Arch | None = None) -> None:
        self.name, self.file, self.device = name, file, device or current_device()
        self._image = KernelBuilder(file, "", device=self.device, include_dirs=include_dirs, options=options,
                                    arch=arch).compile()
        self._kernels: dict[Any, Kernel] = {}

    def kernel(self, name: str, device: "Device | None" = None) -> Kernel:
        """The kernel of that name, on the module's device or another of its kind."""
        device = device or self.device
        k = self._kernels.get((name, device))
        if k is None:
            k = self._kernels[name, device] = Kernel(self._image, name, device)
        return k

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("create_") and attribute.endswith("_algorithm"):
            name = attribute[len("create_"):-len("_algorithm")]
            raise AttributeError(f"module {self.name} has no algorithm {name}: add it with algorithm({name!r}, "
                                 "collective, launch=…)")
        raise AttributeError(f"{type(self).__name__} has no attribute {attribute}")

    def algorithm(self, name: str, collective: str, **functions: Any) -> NativeAlgorithm:
        """A NativeAlgorithm, which create_<name>_algorithm() then gives too."""
        a = NativeAlgorithm(name, collective, **functions)
        setattr(self, f"create_{name}_algorithm", lambda: a)
        return a


def compile_native(name: str, file: str, options: Sequence[str] = (), *, device: "Device | None" = None,
                   include_dirs: Sequence[str | os.PathLike[str]] = (),
                   arch: Arch | None = None) -> NativeModule | ModuleType:
    """Compiles a .cu file for device (default: the current GPU) with NVRTC, without nvcc or a C++ compiler, and caches
    the image by content.

    The file may include goccl's headers and their mscclpp aliases, headers beside it and in include_dirs, and CUDA's.
    With arch, such as (9, 0) or "sm_90", no GPU is needed until a kernel is loaded. Raises InvalidArgument with the
    compiler's log.

    A source that contains a module of pybind11 or nanobind is built by nvcc (.cu) or a C++ compiler instead, and
    imported: it needs that, Python's headers and the binding library, and says so where one is missing.
    Algorithm.create_from_native_capsule takes the algorithms that it gives.
    """
    with open(file, encoding="utf-8") as f:
        library = binding(f.read())
    if library is not None:
        return compile_extension(name, file, library, options, include_dirs, arch)
    return NativeModule(name, file, options, device=device, include_dirs=include_dirs, arch=arch)
