"""The C ABI (goccl.h, goccl_moe.h, goccl_primitive.h) by ctypes, and its objects.

The library is opened by the first call, not by the import, so that importing starts no thread and a process may fork
after it. Calls let go of the GIL. A call that fails raises the exception of its result with the thread's error text.
"""

import _thread
import ctypes
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from . import errors
from ._abi import SIGNATURES
from ._checked import bounds, fit
from ._env import read

T = TypeVar("T")

ABI_VERSION = 1

_TYPES = {"i": ctypes.c_int32, "u": ctypes.c_uint32, "l": ctypes.c_int64, "Q": ctypes.c_uint64, "p": ctypes.c_void_p,
          "s": ctypes.c_char_p}

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
    """libgoccl.so. An attribute is a function that raises on failure and returns what the C function stores: nothing, a
    number, several, or bytes. ``raw`` has the C functions, which return a goccl_result."""

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

    @functools.cache
    def raw(self, name: str) -> Any:
        f = getattr(self.dll(), "goccl_" + name)
        letters, _, outputs = SIGNATURES[name].partition(">")
        types = [_TYPES[c] for c in letters]
        f.argtypes = types + [ctypes.c_void_p] * (len(outputs) + outputs.count("b"))
        f.restype = ctypes.c_int32
        ends = [bounds(t) for t in types]
        numbers = [(i, *e) for i, e in enumerate(ends) if e and letters[i] not in "ps"]
        addresses = [i for i, letter in enumerate(letters) if letter == "p"]

        def call(*args: Any) -> Any:
            for i, low, high in numbers:
                if not low <= args[i] <= high:
                    fit(name, types[i], args[i])
            for i in addresses:
                if isinstance(args[i], int):
                    fit(name, types[i], args[i])
            return f(*args)

        call.unchecked = f  # type: ignore[attr-defined]
        return call

    def __getattr__(self, name: str) -> Any:
        if name not in SIGNATURES:
            raise AttributeError(name)
        f, outputs = self.raw(name), SIGNATURES[name].partition(">")[2]
        types: list[Any] = [ctypes.c_void_p, ctypes.c_uint64] if outputs == "b" else [_TYPES[c] for c in outputs]

        def call(*args: Any) -> None:
            r = f(*args)
            if r:
                raise error(r)

        def returning(*args: Any) -> Any:
            values = [t() for t in types]
            call(*args, *map(ctypes.byref, values))
            if outputs == "b":
                try:
                    return ctypes.string_at(values[0], values[1].value)
                finally:
                    self.dll().goccl_release(values[0])
            return tuple(v.value for v in values) if len(values) > 1 else values[0].value

        chosen: Any = returning if outputs else call
        chosen.__name__ = name
        setattr(self, name, chosen)
        return chosen


lib = _Library()


def error(result: int) -> errors.GocclError:
    """The exception of a result that the calling thread just got."""
    return errors.from_result(result, lib.dll().goccl_last_error().decode(errors="replace"))


def version() -> str:
    """The version of libgoccl.so."""
    text: bytes = lib.dll().goccl_version()
    return text.decode()


def nanoseconds(seconds: float | None) -> int:
    """A duration for the ABI; None is its default."""
    if seconds is None:
        return 0
    if seconds < 0:
        raise errors.InvalidArgument(f"a timeout of {seconds} seconds")
    return max(int(seconds * 1e9), 1)


def interruptible(function: Callable[..., T], *args: Any, on_interrupt: Callable[[], Any] | None = None) -> T:
    """function(*args), which may block, so that Ctrl-C ends the wait.

    Python raises in the main thread only, and only between its bytecodes; there the call runs on another thread while
    the main thread waits for it. The wait is in slices: the kernel may deliver a signal to any thread of the process,
    and one delivered elsewhere, or just before the wait blocks, does not wake the main thread. After an interrupt
    on_interrupt is called, which should make the call end; the call is left alone to do so.
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
        while not done.acquire(timeout=SLICE * 1e-9):
            pass
    except BaseException:
        if on_interrupt is not None:
            on_interrupt()
        raise
    value, failure = outcome[0]
    if failure is not None:
        raise failure.with_traceback(None)  # without the thread's own frames
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


class Object:
    """A goccl_object, and the objects from which it was made, which it keeps alive."""

    _handle: int
    _keep: tuple[Any, ...]

    def __init__(self, handle: int, *keep: object) -> None:
        self._handle = handle
        self._keep = keep
        self._finalizer = weakref.finalize(self, lib.raw("object_close"), handle)
        self._finalizer.atexit = False

    @property
    def handle(self) -> int:
        """The goccl_object."""
        return self._handle

    def close(self) -> None:
        """Ends the object; nothing made from it may be used any more. Closing twice is harmless."""
        if self._finalizer.detach():
            lib.object_close(self._handle)


class DeviceHandle:
    """What a kernel gets: ``raw`` are the bytes of the handle's struct in the device headers."""

    __slots__ = ("raw", "_owner")
    raw: bytes

    def __init__(self, owner: Object) -> None:
        self.raw = lib.object_device_handle(owner.handle)
        self._owner = owner  # the addresses inside are valid for as long as this lives

    def __bytes__(self) -> bytes:
        return self.raw

    def __len__(self) -> int:
        return len(self.raw)


class OnDevice(Object):
    """An object that kernels use."""

    def device_handle(self) -> DeviceHandle:
        """This side for kernels."""
        return DeviceHandle(self)
