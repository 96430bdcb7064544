"""The functions of NCCL's ABI that faults.py calls, by ctypes, and memory for them."""

import ctypes

SUCCESS, REMOTE_ERROR, IN_PROGRESS, TIMEOUT = 0, 6, 7, 8
FLOAT, SUM, SHRINK_ABORT = 7, 0, 1


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Failure(Exception):
    pass


def require(holds, text):
    if not holds:
        raise Failure(text)


class Library:
    """The few functions of NCCL's ABI that are used here."""

    def __init__(self, path):
        self.c = c = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        comm, size, integer, pointer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
        out = ctypes.POINTER(ctypes.c_void_p)
        for name, arguments in {
            "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
            "ncclCommInitRank": [out, integer, UniqueId, integer],
            "ncclAllReduce": [pointer, pointer, size, integer, integer, comm, pointer],
            "ncclCommGetAsyncError": [comm, ctypes.POINTER(integer)],
            "ncclCommShrink": [comm, ctypes.POINTER(integer), integer, out, pointer, integer],
            "ncclCommCount": [comm, ctypes.POINTER(integer)],
            "ncclCommAbort": [comm],
            "ncclCommDestroy": [comm],
        }.items():
            f = getattr(c, name)
            f.argtypes, f.restype = arguments, integer
        c.ncclGetLastError.argtypes, c.ncclGetLastError.restype = [comm], ctypes.c_char_p

    def last_error(self):
        return (self.c.ncclGetLastError(None) or b"").decode(errors="replace")

    def ok(self, result, what):
        require(result == SUCCESS, f"{what} returned {result}: {self.last_error()}")

    def init(self, world, id, rank):
        comm = ctypes.c_void_p()
        return self.c.ncclCommInitRank(ctypes.byref(comm), world, id, rank), comm

    def async_error(self, comm):
        e = ctypes.c_int(-1)
        self.ok(self.c.ncclCommGetAsyncError(comm, ctypes.byref(e)), "ncclCommGetAsyncError")
        return e.value


class HostMemory:
    """Ordinary memory, for GOCCL_DEVICE=host: calls return when their work is done."""

    stream = None
    count = 1 << 14

    def __init__(self, rank):
        self.send, self.recv = (ctypes.c_float * self.count)(), (ctypes.c_float * self.count)()

    def pointers(self):
        return ctypes.addressof(self.send), ctypes.addressof(self.recv)

    def fill(self, value):
        self.send[:] = [value] * self.count

    def holds(self, value):
        return all(self.recv[i] == value for i in (0, 1, self.count // 2, self.count - 1))

    def idle(self):
        return True

    def works(self):
        return True


class DeviceMemory:
    """Two tensors and a stream of PyTorch."""

    count = 1 << 20

    def __init__(self, rank):
        import torch

        self.torch = torch
        torch.cuda.set_device(rank)
        self.side = torch.cuda.Stream()
        self.stream = self.side.cuda_stream
        self.send, self.recv = (torch.zeros(self.count, device="cuda") for _ in range(2))
        torch.cuda.synchronize()

    def pointers(self):
        return self.send.data_ptr(), self.recv.data_ptr()

    def fill(self, value):
        self.send.fill_(value)
        self.torch.cuda.synchronize()

    def holds(self, value):
        return bool((self.recv == value).all().item())

    def idle(self):
        return self.side.query()  # raises if the context is broken

    def works(self):
        """Whether the CUDA context still computes, on the stream that was used and on another."""
        x = self.torch.arange(1000, device="cuda")
        with self.torch.cuda.stream(self.side):
            y = self.torch.arange(1000, device="cuda") * 2
        self.side.synchronize()
        return int(x.sum()) == 499500 and int(y.sum()) == 999000
