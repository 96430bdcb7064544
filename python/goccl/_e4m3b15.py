"""Reductions of float8_e4m3b15, which no kernel of goccl's has: the elements are widened to float32, reduced, and
narrowed again.

The format has a sign, 4 bits of exponent with bias 15 and 3 of mantissa, and neither infinity nor NaN: the largest
number is 1.875, at which narrowing saturates. Halves are rounded away from zero, after a rounding to float16.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from ._buffer import stream_handle
from ._lib import synchronize
from ._types import DataType
from .device import Device, RawGpuBuffer
from .utils import Kernel, compile_source, pack

REDUCING = ("allreduce", "reducescatter", "reduce")
MOVING = ("allgather", "alltoall", "broadcast", "sendrecv")

_SOURCE = """
extern "C" __global__ void widen(float* out, const unsigned char* in, unsigned long long n) {
  for (unsigned long long i = blockIdx.x * 1ull * blockDim.x + threadIdx.x; i < n; i += gridDim.x * 1ull * blockDim.x) {
    unsigned short half = (in[i] & 0x80) << 8 | (in[i] & 0x7f) << 7;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out[i]) : "h"(half));
  }
}
extern "C" __global__ void narrow(unsigned char* out, const float* in, unsigned long long n) {
  for (unsigned long long i = blockIdx.x * 1ull * blockDim.x + threadIdx.x; i < n; i += gridDim.x * 1ull * blockDim.x) {
    unsigned short half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(in[i]));
    unsigned magnitude = half & 0x7fff;
    if (magnitude > 0x3f80) magnitude = 0x3f80;
    out[i] = (half >> 8 & 0x80) | (2 * magnitude + 0x80) >> 8;
  }
}
"""


def widen(raw: Any) -> Any:
    """The float32 values of a numpy array of bytes."""
    import numpy as np

    bits = raw.astype(np.uint16)
    return ((bits & 0x80) << 8 | (bits & 0x7F) << 7).view(np.float16).astype(np.float32)


def narrow(values: Any) -> Any:
    """The bytes of a numpy array of float32."""
    import numpy as np

    with np.errstate(over="ignore"):
        bits = values.astype(np.float16).view(np.uint16)
    return (bits >> 8 & 0x80 | 2 * np.minimum(bits & 0x7FFF, 0x3F80) + 0x80 >> 8).astype(np.uint8)


class _Gpu:
    """The kernels of one GPU, and its staging memory by stream. Memory that was outgrown stays, because work may still
    use it."""

    def __init__(self, device: Device) -> None:
        image = compile_source(_SOURCE, "e4m3b15.cu", device=device)
        self._device = device
        self._widen, self._narrow = Kernel(image, "widen", device), Kernel(image, "narrow", device)
        self._staging: dict[tuple[int, int], list[RawGpuBuffer]] = {}

    def staging(self, stream: int, number: int, size: int) -> int:
        """The address of size bytes."""
        held = self._staging.setdefault((stream, number), [])
        if not held or held[-1].nbytes < size:
            held.append(RawGpuBuffer(max(size, 2 * held[-1].nbytes if held else 1 << 16), device=self._device))
        return held[-1].data()

    def convert(self, widening: bool, to: int, source: int, n: int, stream: int) -> None:
        """Enqueues a conversion of n elements."""
        kernel, u64 = self._widen if widening else self._narrow, ctypes.c_uint64
        kernel.launch_kernel(pack(u64(to), u64(source), u64(n)), min(max((n + 255) // 256, 1), 1024), 256, 0, stream)


_gpus: dict[Device, _Gpu] = {}
_lock = threading.Lock()


def _gpu(device: Device) -> _Gpu:
    with _lock:
        if device not in _gpus:
            _gpus[device] = _Gpu(device)
        return _gpus[device]


def reduce(device: Device, stream: Any, send: int, recv: int, send_size: int, recv_size: int, keep_output: bool,
           run: Callable[..., Any]) -> None:
    """Calls run(send, recv, dtype, scale) with float32 copies of the buffers, which are scale times as large, and
    narrows the output. An output inside of the input stays inside. keep_output: the output is not this rank's to
    write."""
    stream, inside = stream_handle(stream), send <= recv < send + max(send_size, 1)
    if not device.is_host:
        gpu = _gpu(device)
        wide = gpu.staging(stream, 0, 4 * send_size)
        result = wide + 4 * (recv - send) if inside else gpu.staging(stream, 1, 4 * recv_size)
        gpu.convert(True, wide, send, send_size, stream)
        run(wide, result, DataType.float32, 4)
        if not keep_output:
            gpu.convert(False, recv, result, recv_size, stream)
        return
    import numpy as np

    if stream:
        synchronize(device.handle, stream)
    source, out = (np.ctypeslib.as_array((ctypes.c_uint8 * n).from_address(p)) if n else np.empty(0, np.uint8)
                   for p, n in ((send, send_size), (recv, recv_size)))
    values = widen(source)
    results = values[recv - send:recv - send + recv_size] if inside else np.zeros(recv_size, np.float32)
    run(values.ctypes.data, results.ctypes.data, DataType.float32, 4)
    if stream:
        synchronize(device.handle, stream)
    if not keep_output:
        out[:] = narrow(results)
