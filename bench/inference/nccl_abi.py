"""All-reduces by NCCL's C interface, as engines call it: of NVIDIA's library and of goccl's."""

import ctypes
import os

import torch

from contender import Contender

BFLOAT16, SUM = 9, 0
COLL_SYMMETRIC = 1  # of ncclCommWindowRegister


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class ABI(Contender):
    """The library at a path. RTLD_DEEPBIND: several libraries with these names are in the process."""

    default = True

    def __init__(self, name, path):
        self.name, self.path, self.comm = name, path, ctypes.c_void_p()

    def prepare(self, job, most):
        self.c = c = ctypes.CDLL(self.path, mode=ctypes.RTLD_LOCAL | os.RTLD_DEEPBIND)
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        c.ncclGetLastError.argtypes, c.ncclGetLastError.restype = [pointer], ctypes.c_char_p
        c.ncclCommInitRank.argtypes = [ctypes.POINTER(pointer), integer, UniqueId, integer]
        c.ncclAllReduce.argtypes = [pointer, pointer, ctypes.c_size_t, integer, integer, pointer, pointer]
        number = ctypes.c_int()
        self.ok(c.ncclGetVersion(ctypes.byref(number)))
        self.version = version(number.value)
        id = UniqueId()
        failure = None
        if job.rank == 0:
            try:
                self.ok(c.ncclGetUniqueId(ctypes.byref(id)))
            except RuntimeError as e:
                failure = e
        job.agree(failure)
        id = UniqueId.from_buffer_copy(job.exchange(bytes(id))[0])
        self.ok(c.ncclCommInitRank(ctypes.byref(self.comm), job.size, id, job.rank))

    def ok(self, result):
        if result:
            raise RuntimeError(f"{self.name}: result {result}: {(self.c.ncclGetLastError(None) or b'').decode()}")

    def all_reduce(self, job, x, out):
        f, ok = self.c.ncclAllReduce, self.ok
        a = (ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_size_t(x.numel()), BFLOAT16, SUM,
             self.comm, ctypes.c_void_p(job.stream))

        def call():
            r = f(*a)
            if r:
                ok(r)
        return call, out


class Windows(ABI):
    """The same with input and output in registered windows, for which NCCL has symmetric kernels. A communicator
    without windows is beside it, so that neither changes the other's choices."""

    default = False

    def prepare(self, job, most):
        super().prepare(job, most)
        c, pointer = self.c, ctypes.c_void_p
        c.ncclMemAlloc.argtypes = [ctypes.POINTER(pointer), ctypes.c_size_t]
        c.ncclCommWindowRegister.argtypes = [pointer, pointer, ctypes.c_size_t, ctypes.POINTER(pointer), ctypes.c_int]
        self.x, self.out = (self._window(job, most) for _ in range(2))

    def _window(self, job, size):
        p, window = ctypes.c_void_p(), ctypes.c_void_p()
        self.ok(self.c.ncclMemAlloc(ctypes.byref(p), size))
        self.ok(self.c.ncclCommWindowRegister(self.comm, p, size, ctypes.byref(window), COLL_SYMMETRIC))
        return torch.as_tensor(Memory(p.value, size), device=job.device).view(torch.bfloat16)

    def input(self, job, shape):
        return self.x[:shape[0] * shape[1]].view(shape)

    def all_reduce(self, job, x, out):
        return super().all_reduce(job, x, self.out[:x.numel()].view(x.shape))


class Memory:
    """Device memory at an address, as tensors take it."""

    def __init__(self, address, size):
        data = address, False
        self.__cuda_array_interface__ = {"shape": (size // 2,), "typestr": "<i2", "data": data, "version": 3}


def version(number):
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def libraries(paths):
    """NVIDIA's libraries at the paths, each with plain buffers and with windows."""
    found = []
    for path in paths:
        number = ctypes.c_int()
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL | os.RTLD_DEEPBIND).ncclGetVersion(ctypes.byref(number))
        except OSError as e:  # its units say so
            print(e, flush=True)
        name = f"NCCL {version(number.value)}" if number.value else f"NCCL {path}"
        found += [ABI(name, path), Windows(f"{name} windows", path)]
    return found
