"""The C ABI (goccl.h, goccl_moe.h, goccl_primitive.h) by ctypes.

The library is opened by the first call, not by the import, so that importing starts no thread and a process may fork
after it. Calls let go of the GIL. A call that fails raises the exception of its result with the thread's error text.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from . import errors
from ._env import read

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

T = TypeVar("T")

ABI_VERSION = 1

# One letter per argument: i int32, u uint32, l int64, Q uint64 or a handle, p pointer, s string. All functions return a
# goccl_result.
_SIGNATURES = {
    "device_open": "iip", "device_current": "ip", "device_count": "ip", "device_id": "Qpp", "device_capability": "Qppp",
    "alloc": "QQp", "free": "p", "copy_in": "QppQ", "copy_out": "QppQ",
    "stream_create": "Qp", "stream_synchronize": "QQl", "stream_destroy": "QQ",
    "unique_id_create": "lp", "unique_id_close": "p",
    "bootstrap_join_id": "piilp", "bootstrap_join_address": "siilp", "bootstrap_join_env": "lp",
    "bootstrap_local": "ip", "bootstrap_info": "Qpppp", "bootstrap_send": "QiipQl", "bootstrap_recv": "Qiilpp",
    "bootstrap_all_gather": "QpQpl", "bootstrap_barrier": "Ql", "bootstrap_close": "Q",
    "comm_start": "piiQpp", "comm_create": "QQpp", "comm_init_all": "ippp", "comm_split_start": "Qiipp",
    "comm_shrink_start": "Qpiipp", "comm_unique_id": "Qlp", "comm_grow_start": "Qippp", "comm_hash": "Qp",
    "comm_suspend_start": "Q",
    "comm_resume_start": "Q", "comm_memory": "Qppp",
    "comm_wait": "Q", "comm_info_get": "Qp", "comm_error": "Q", "comm_finalize": "Q",
    "comm_destroy": "Q", "comm_abort": "Q", "comm_revoke": "Q", "op_create": "Qupip", "op_destroy": "Qu",
    "records": "spp", "window_register": "QpQp", "flat_register": "QpQp", "flat_wait": "Qp", "window_deregister": "Q",
    "fusion_create": "Qpp", "fusion_all_reduce": "Qp", "fusion_tune": "QQQu", "fusion_destroy": "Q",
    "put_signal": "QQpQiiiQ", "signal": "QiiiQ", "wait_signal": "QipQ", "notify": "QQpp", "estimate": "pQp",
    "check": "p", "submit": "pQ",
    "moe_bytes": "iQpp", "moe_create": "Qpp", "moe_destroy": "Q", "moe_layout": "Qpp", "moe_count": "Qp",
    "moe_notify": "Qp", "moe_dispatch": "Qp", "moe_combine": "Qp",
    "object_close": "Q",
    "object_serialize": "Qpp", "object_device_handle": "Qpp", "context_create": "llp", "context_abort": "Qs",
    "context_error": "Q", "context_recover": "Q", "endpoint_create": "QiQp", "endpoint_create_rdma": "QiiQiiiiip",
    "endpoint_deserialize": "pQp", "endpoint_info": "Qpppp", "connection_create": "QQQp", "connection_info": "Qppp",
    "connection_write": "QQQQQQ",
    "connection_atomic_add": "QQQQ", "connection_update_and_sync": "QQQpQ", "connection_flush": "Ql",
    "memory_register": "QQpQup", "memory_deserialize": "QpQp", "memory_info": "Qppppp", "memory_map": "QQlp",
    "semaphore_stub_create": "Qp", "semaphore_stub_deserialize": "QpQp", "semaphore_create": "QQp",
    "semaphore_signal": "Q", "semaphore_poll": "Qp", "semaphore_wait": "Ql",
    "base_memory_channel_create": "Qp", "memory_channel_create": "QQQQp", "switch_channel_create": "QQQilp",
    "channel_run": "QuQQQup", "fifo_create": "QQip", "fifo_poll": "Qpp", "fifo_pop": "Q", "fifo_size": "Qp",
    "proxy_service_create": "QQip", "proxy_service_start": "Q", "proxy_service_stop": "Q",
    "proxy_service_add_semaphore": "QQp", "proxy_service_build_semaphore": "QQQp", "proxy_service_add_memory": "QQp",
    "proxy_service_remove_semaphore": "Qu", "proxy_service_remove_memory": "Qu", "base_port_channel_create": "Qup",
    "port_channel_create": "Quuup", "communicator_create": "QQp", "communicator_connect": "QiQiip",
    "communicator_connect_endpoint": "QQiip", "communicator_send_memory": "QQiip", "communicator_recv_memory": "Qiip",
    "communicator_build_semaphore": "QQiip", "future_wait": "Qlp", "kernel_compile": "QiipQspipipp",
    "module_load": "QpQp", "module_function": "Qsp", "kernel_launch": "QQpupQ", "plan_compile": "pQpp",
    "plan_build": "spQpp", "plan_check": "pQpp", "plan_describe": "pQpp", "executor_create": "QQlp",
    "executor_load": "QpQQp", "executor_load_trusted": "QpQQp", "executor_launch": "QQQQQuuQ", "executor_error": "Q",
    "executor_abort": "Q", "executor_hook": "Qup", "executor_raise_hook": "QuQQ", "executor_await_hook": "QuQQ",
    "executor_register": "QQ", "executor_launch_counted": "QQQQQQuuQ",
}
_TYPES = {"i": ctypes.c_int32, "u": ctypes.c_uint32, "l": ctypes.c_int64, "Q": ctypes.c_uint64, "p": ctypes.c_void_p,
          "s": ctypes.c_char_p}
_RANGES = {"i": (-1 << 31, (1 << 31) - 1), "u": (0, (1 << 32) - 1), "l": (-1 << 63, (1 << 63) - 1),
           "Q": (0, (1 << 64) - 1)}

TIMEOUT = errors.Timeout.code


def directory() -> str | None:
    """The folder of libgoccl.so: $GOCCL_LIBRARY's, the package's own, or a checkout's build folder."""
    here = os.path.dirname(os.path.abspath(__file__))
    given = read("GOCCL_LIBRARY")
    if given:
        return given if os.path.isdir(given) else os.path.dirname(given)
    for d in (os.path.join(here, "lib"), os.path.join(here, "..", "..", "build")):
        if os.path.exists(os.path.join(d, "libgoccl.so")):
            return os.path.normpath(d)
    return None


class _Library:
    """libgoccl.so. An attribute is a function that raises on failure; ``raw`` has those that return the result."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dll: ctypes.CDLL | None = None

    def dll(self) -> ctypes.CDLL:
        if self._dll is None:
            with self._lock:
                if self._dll is None:
                    self._dll = self._open()
        return self._dll

    @staticmethod
    def _open() -> ctypes.CDLL:
        d = directory()
        path = os.path.join(d, "libgoccl.so") if d else "libgoccl.so"
        given = read("GOCCL_LIBRARY")
        if given and not os.path.isdir(given):
            path = given
        try:
            dll = ctypes.CDLL(path)
        except OSError as e:
            raise ImportError(f"{e}: build it with `make libgoccl` or install the wheel (`pip install ./python`); "
                              "GOCCL_LIBRARY names a file or folder") from e
        dll.goccl_abi_version.restype = ctypes.c_uint32
        found = dll.goccl_abi_version()
        if found != ABI_VERSION:
            raise ImportError(f"{path} has ABI version {found}, this package needs {ABI_VERSION}: install both from "
                              "one version")
        dll.goccl_last_error.restype = ctypes.c_char_p
        dll.goccl_version.restype = ctypes.c_char_p
        dll.goccl_release.argtypes = [ctypes.c_void_p]
        dll.goccl_release.restype = None
        return dll

    def raw(self, name: str) -> Any:
        f = getattr(self.dll(), "goccl_" + name)
        f.argtypes = [_TYPES[c] for c in _SIGNATURES[name]]
        f.restype = ctypes.c_int32
        numbers = [(i, c, *_RANGES[c]) for i, c in enumerate(_SIGNATURES[name]) if c in _RANGES]

        def call(*args: Any) -> Any:
            for i, c, low, high in numbers:
                if not low <= args[i] <= high:
                    fit(name, c, args[i])
            return f(*args)

        return call

    def __getattr__(self, name: str) -> Any:
        if name not in _SIGNATURES:
            raise AttributeError(name)
        f = self.raw(name)

        def call(*args: Any) -> None:
            r = f(*args)
            if r:
                raise error(r)

        call.__name__ = name
        setattr(self, name, call)
        return call


lib = _Library()


def fit(where: str, kind: str, number: int) -> int:
    """number, if the type of that letter holds it: ctypes drops the bits that do not fit."""
    low, high = _RANGES[kind]
    if not low <= number <= high:
        raise errors.InvalidArgument(f"{where}: {number} is out of range: want a number from {low} to {high}")
    return number


def error(result: int) -> errors.GocclError:
    """The exception of a result that the calling thread just got."""
    return errors.from_result(result, lib.dll().goccl_last_error().decode(errors="replace"))


def version() -> str:
    """The version of libgoccl.so."""
    text: bytes = lib.dll().goccl_version()
    return text.decode()


def create(function: Callable[..., Any], *args: Any) -> int:
    """The handle that a function of the ABI leaves in its last argument."""
    h = ctypes.c_uint64()
    function(*args, ctypes.byref(h))
    return h.value


def take(function: Callable[..., Any], *args: Any) -> bytes:
    """The bytes that a function of the ABI leaves in its last two arguments, freed there."""
    p, n = ctypes.c_void_p(), ctypes.c_uint64()
    function(*args, ctypes.byref(p), ctypes.byref(n))
    try:
        return ctypes.string_at(p, n.value)
    finally:
        lib.dll().goccl_release(p)


def nanoseconds(seconds: float | None) -> int:
    """A duration for the ABI; None is its default."""
    if seconds is None:
        return 0
    if seconds < 0:
        raise errors.InvalidArgument(f"a timeout of {seconds} seconds")
    return max(int(seconds * 1e9), 1)


def interruptible(function: Callable[..., T], *args: Any, on_interrupt: Callable[[], Any] | None = None) -> T:
    """function(*args), which may block, so that Ctrl-C ends the wait.

    Signals reach the main thread only, and only between its bytecodes; there the call runs on a thread of its own while
    the main thread waits for it. After an interrupt on_interrupt is called, which should make the call end; the call is
    left alone to do so.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    outcome: list[Any] = []
    done = _thread.allocate_lock()
    done.acquire()

    def work() -> None:
        try:
            outcome.append((function(*args), None))
        except BaseException as e:  # handed to the caller
            outcome.append((None, e))
        finally:
            done.release()

    _thread.start_new_thread(work, ())
    try:
        done.acquire()
    except BaseException:
        if on_interrupt is not None:
            on_interrupt()
        raise
    value, failure = outcome[0]
    if failure is not None:
        raise failure
    result: T = value
    return result


SLICE = 50_000_000  # ns that a wait in slices blocks at a time


def synchronize(device: int, stream: int, check: Callable[[], Any] | None = None, timeout: float | None = None) -> None:
    """Waits for a stream in slices, between which Ctrl-C is seen and check() may raise."""
    sync = lib.raw("stream_synchronize")
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        r = sync(device, stream, SLICE)
        if r == 0:
            return
        if r != TIMEOUT:
            raise error(r)
        if check is not None:
            check()
        if deadline is not None and time.monotonic() >= deadline:
            raise error(r)
