"""All-reduces by NCCL's C interface, as engines call it: of NVIDIA's library and of goccl's."""

import ctypes
import os

from contender import Contender

BFLOAT16, SUM = 9, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class ABI(Contender):
    """The library at a path. RTLD_DEEPBIND: several libraries with these names are in the process."""

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
        self.version = f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"
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
