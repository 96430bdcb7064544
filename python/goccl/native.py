"""Algorithms of one's own in CUDA C++: kernels compiled at run time, and the description around them, in the same file or in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import errors
from ._description import Description, descriptions
from ._types import DataType, ReduceOp
from .algorithm import Algorithm

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from ._typing import Arch, StreamSpec
    from .algorithm import Executor
    from .primitives import Communicator
    from .device import Device
    from .utils import Kernel

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

    def __init__(self, name: str, collective: str, *, launch: Callable[..., Any], initialize: Callable[..., Any] | None = None,
                 init_context: Callable[..., Any] | None = None,
                 context_key: Callable[..., Any] | None = None, min_message_size: int = 0, max_message_size: int = _MAX,
                 tags: dict[str, int] | None = None) -> None:
        super().__init__(name, collective, (min_message_size, max_message_size), tags, doc="a kernel of the user's")
        self._launch, self._initialize, self._init_context, self._key = launch, initialize, init_context, context_key
        self._comms: dict[int, tuple[Any, ...]] = {}
        self._contexts: dict[Any, Any] = {}

    def execute(self, comm: Communicator, input_buffer: int, output_buffer: int, input_size: int, output_size: int, dtype: DataType,
                op: ReduceOp = ReduceOp.NOP, stream: StreamSpec = 0, executor: Executor | None = None, nblocks: int = 0,
                nthreads_per_block: int = 0, extras: dict[str, int] | None = None, *, symmetric_memory: bool = False, accum_dtype: DataType | None = None) -> int:
        if nblocks < 0 or nthreads_per_block < 0 or symmetric_memory or accum_dtype is not None:
            self._refuse_kernels(nblocks, nthreads_per_block, symmetric_memory, accum_dtype)
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
    """A compiled .cu file.

    ``create_<name>_algorithm()`` gives the algorithm that the file describes under that name with GOCCL_ALGORITHM (goccl/algorithm.cuh), or that algorithm()
    was told. kernel(name) is one of its kernels.
    """

    name: str
    file: str
    device: Device

    def __init__(self, name: str, file: str, options: Sequence[str] = (), *, device: "Device | None" = None,
                 include_dirs: Sequence[str | os.PathLike[str]] = (), arch: Arch | None = None) -> None:
        from .device import current_device
        from .utils import compile_source

        with open(file, encoding="utf-8") as f:
            source = f.read()
        self.name, self.file, self.device = name, file, device or current_device()
        base, include_dirs = os.path.basename(file), (os.path.dirname(os.path.abspath(file)), *include_dirs)
        self._image = compile_source(source, base, device=self.device, arch=arch, options=options, include_dirs=include_dirs)
        self._kernels: dict[Any, Any] = {}
        self._described: dict[str, Description] = {}
        if "GOCCL_ALGORITHM" not in source:
            return
        # PTX is for a GPU that the compiler does not know; the tables are the same for all.
        image = self._image if self._image[:4] == b"\x7fELF" else compile_source(source, base, arch=(9, 0), options=options, include_dirs=include_dirs)
        found, kernels = descriptions(image)
        for d in found:
            for launch in d.launches:
                if launch[0] not in kernels:
                    raise errors.InvalidArgument(f"{file}: algorithm {d.name} launches {launch[0]}, which is no extern \"C\" __global__ function of the file")
            self._described[d.symbol] = d

    @property
    def algorithms(self) -> list[str]:
        """The names of the algorithms that the file describes."""
        return sorted(self._described)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("create_") and attribute.endswith("_algorithm"):
            d = self.__dict__.get("_described", {}).get(attribute[len("create_"):-len("_algorithm")])
            if d is not None:
                from ._described import DescribedAlgorithm

                return lambda: DescribedAlgorithm(self, d)
        described = sorted(self.__dict__.get("_described", ()))
        raise AttributeError(f"module {self.__dict__.get('name')} has no {attribute}; it describes the algorithms {described}")

    def kernel(self, name: str, device: "Device | None" = None) -> Kernel:
        """The kernel of that name, on the module's device or another of its kind."""
        from .utils import Kernel

        device = device or self.device
        k = self._kernels.get((name, device))
        if k is None:
            k = self._kernels[name, device] = Kernel(self._image, name, device)
        return k

    def algorithm(self, name: str, collective: str, **functions: Any) -> NativeAlgorithm:
        """A NativeAlgorithm, which create_<name>_algorithm() then gives too."""
        a = NativeAlgorithm(name, collective, **functions)
        setattr(self, f"create_{name}_algorithm", lambda: a)
        return a


def compile_native(name: str, file: str, options: Sequence[str] = (), *, device: "Device | None" = None,
                   include_dirs: Sequence[str | os.PathLike[str]] = (),
                   arch: Arch | None = None) -> NativeModule | ModuleType:
    """Compiles a .cu file for device (default: the current GPU) with NVRTC, against goccl's headers and their mscclpp aliases, those beside the file and in
    include_dirs, and CUDA's; no nvcc and no C++ compiler, cached by content. With arch, such as (9, 0) or "sm_90", no GPU is needed until a kernel is loaded.
    Raises InvalidArgument with the compiler's log, or where a description is wrong.

    A source that contains a module of pybind11 or nanobind is built by nvcc (.cu) or a C++ compiler instead, and
    imported: it needs that, Python's headers and the binding library, and says so where one is missing.
    Algorithm.create_from_native_capsule takes the algorithms that it gives."""
    from ._extension import binding, compile_extension

    with open(file, encoding="utf-8") as f:
        library = binding(f.read())
    if library is not None:
        return compile_extension(name, file, library, options, include_dirs, arch)
    return NativeModule(name, file, options, device=device, include_dirs=include_dirs, arch=arch)
