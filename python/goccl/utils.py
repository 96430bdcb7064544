"""Users' kernels: compiled at run time against goccl's embedded headers, launched with packed parameters."""

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from typing import Any

from . import errors
from ._buffer import resolve, stream_handle
from ._checked import array
from ._env import read
from ._lib import Object, error, interruptible, lib
from ._types import DataType
from ._typing import Arch, StreamSpec
from .device import Device, GpuBuffer, RawGpuBuffer, current_device

__all__ = ["Kernel", "KernelBuilder", "pack", "compile_source", "torch_dtype_to_mscclpp_dtype", "is_torch_tensor",
           "get_device_arch", "GpuBuffer", "RawGpuBuffer"]


class Kernel:
    """A kernel of a compiled image (cubin, fatbin or PTX) on a GPU."""

    def __init__(self, image: bytes, name: str, device: Device | None = None) -> None:
        self.device = device or current_device()
        self._module = Object(lib.module_load(self.device.handle, image, len(image)))
        self._function = Object(lib.module_function(self._module.handle, name.encode()))
        self._launch = lib.raw("kernel_launch")
        self.name = name

    def launch_kernel(self, params: bytes, nblocks: int | Sequence[int], nthreads: int | Sequence[int], shared: int = 0,
                      stream: StreamSpec = None) -> None:
        """Enqueues a launch: params from pack, blocks and threads as ints or up to three of each, shared in bytes,
        stream None the default stream."""
        grid = (nblocks,) if isinstance(nblocks, int) else tuple(nblocks)
        block = (nthreads,) if isinstance(nthreads, int) else tuple(nthreads)
        shape = array(self.name, ctypes.c_uint32, (*(grid + (1, 1))[:3], *(block + (1, 1))[:3], 0, 0, 0))
        r = self._launch(self._function.handle, stream_handle(stream), shape, shared, params, len(params))
        if r:
            raise error(r)


def compile_source(source: str, name: str = "kernel.cu", *, device: Device | None = None, arch: Arch | None = None,
                   options: Sequence[str] = (), include_dirs: Sequence[str | os.PathLike[str]] = ()) -> bytes:
    """The image of CUDA C++ source for device, or, with no GPU at hand, for an architecture such as (9, 0) or "sm_90".
    Cached by content.

    goccl's headers (goccl/*.cuh), their aliases (mscclpp/*.hpp), what lies in include_dirs and CUDA's own headers can
    be included. Needs libnvrtc: a CUDA toolkit's, or ``pip install nvidia-cuda-nvrtc-cu12``; CUDA's headers are the
    toolkit's, or ``pip install nvidia-cuda-runtime-cu12``.
    """
    major, minor = (0, 0) if arch is None else _capability(arch)
    handle = (device or current_device()).handle if arch is None else 0
    # Unannotated functions, such as constexpr ones, are for the device.
    opts = [b"-default-device", *(o.encode() for o in options if o != "-default-device"),
            *(b"-I" + os.fsencode(d) for d in include_dirs)]
    dirs = [p.encode() for p in _nvrtc_folders()]
    raw = source.encode()
    return interruptible(lib.kernel_compile, handle, major, minor, raw, len(raw), name.encode(),
                         (ctypes.c_char_p * max(len(opts), 1))(*opts), len(opts),
                         (ctypes.c_char_p * max(len(dirs), 1))(*dirs), len(dirs))


def _capability(arch: Arch) -> tuple[int, int]:
    """The compute capability that (9, 0), "sm_90" or "compute_90" names."""
    if isinstance(arch, str):
        kind, _, digits = arch.rpartition("_")
        if kind not in ("sm", "compute") or not digits.isascii() or not digits.isdigit() or len(digits) < 2:
            raise errors.InvalidArgument(f'arch {arch!r}: say (9, 0) or "sm_90"; architectures with a letter '
                                         '("sm_90a") are not compiled for')
        return int(digits[:-1]), int(digits[-1])
    major, minor = arch
    if major < 1 or not 0 <= minor <= 9:
        raise errors.InvalidArgument(f"arch {arch}: the compute capability is (major, minor), such as (9, 0)")
    return major, minor


def _nvrtc_folders() -> list[str]:
    # The library has its own copy of the environment, as it was when it was loaded.
    given = read("GOCCL_NVRTC")
    packages = (p for p in dict.fromkeys(sys.path) if p.endswith("-packages") and os.path.isdir(p))
    return [*([given] if given else []), *packages]


class KernelBuilder:
    """Compiles a .cu file: get_compiled_kernel gives the kernel of a name in it. Headers beside the file, in
    include_dirs and CUDA's own are found. Compiling the same content again costs nothing. With arch, such as (9, 0) or
    "sm_90", compile() needs no GPU."""

    def __init__(self, file: str, kernel_name: str, file_dir: str | None = None,
                 macro_dict: dict[str, Any] | None = None, *, device: Device | None = None,
                 include_dirs: Sequence[str | os.PathLike[str]] = (), options: Sequence[str] = (),
                 arch: Arch | None = None) -> None:
        self._path = os.path.join(file_dir or os.getcwd(), file)
        self._name, self._arch = kernel_name, arch
        self._device = device or current_device() if arch is None else device
        self._options = [*options, *(f"-D{k}={v}" for k, v in (macro_dict or {}).items())]
        self._include_dirs = [os.path.dirname(os.path.abspath(self._path)), *include_dirs]

    def compile(self) -> bytes:
        """The image: a cubin, or PTX for a GPU that the compiler does not know."""
        with open(self._path, encoding="utf-8") as f:
            source = f.read()
        return compile_source(source, os.path.basename(self._path), device=self._device, arch=self._arch,
                              options=self._options, include_dirs=self._include_dirs)

    def get_compiled_kernel(self) -> Kernel:
        """The kernel, loaded on the device."""
        return Kernel(self.compile(), self._name, self._device)


def pack(*args: Any) -> bytes:
    """Kernel parameters, each at its natural alignment as the kernel declares them: an int or bool is 4 bytes, a ctypes
    value its own size, a float 4 bytes, an array or buffer its address, bytes themselves (aligned to 8 when they are 8
    or more)."""
    out = bytearray()

    def add(raw: bytes, align: int) -> None:
        out.extend(bytes(-len(out) % align))
        out.extend(raw)

    for a in args:
        if isinstance(a, (bool, int)):
            if not -(1 << 31) <= a < 1 << 32:
                raise errors.InvalidArgument(f"{a} does not fit into 4 bytes: pass ctypes.c_int64, ctypes.c_uint64 or "
                                             "ctypes.c_size_t")
            add(struct.pack("<i" if a < 0 else "<I", a), 4)
        elif isinstance(a, float):
            add(struct.pack("<f", a), 4)
        elif isinstance(a, ctypes._SimpleCData):
            add(bytes(a), ctypes.alignment(a))
        elif isinstance(a, (bytes, bytearray)):
            add(bytes(a), 8 if len(a) >= 8 else 4)
        elif hasattr(a, "dtype") and getattr(a, "ndim", 1) == 0 and not hasattr(a, "data_ptr"):
            add(a.tobytes(), a.dtype.itemsize)  # a numpy scalar
        else:
            add(struct.pack("<Q", resolve(a).ptr), 8)
    return bytes(out)


def is_torch_tensor(tensor: object) -> bool:
    """Whether tensor is torch's."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def torch_dtype_to_mscclpp_dtype(dtype: Any) -> DataType:
    """goccl's element type of a torch, numpy or cupy one."""
    known = _DTYPES.get(dtype)
    if known is None:
        name = getattr(dtype, "name", getattr(dtype, "__name__", dtype))
        known = _DTYPES[dtype] = DataType.of(str(dtype) if str(dtype).startswith("torch.") else name)
    return known


_DTYPES: dict[Any, Any] = {}


def get_device_arch() -> str:
    """"sm_90" and the like, of the current GPU."""
    device = current_device()
    if device.is_host:
        raise errors.CudaError("get_device_arch: there is no GPU")
    return "sm_{}{}".format(*device.capability)
