"""Communicator: the collectives and point-to-point calls of a rank."""

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

from .. import errors
from .._abi import CallConfig
from .._buffer import CUDA, HOST, Buffer, resolve
from .._checked import array
from .._lib import lib
from .._types import DataType, ReduceOp
from .._typing import BufferSpec, StreamSpec
from ._calls import (ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, ALL_TO_ALL_V, ALL_TO_ALL_V_DEVICE, BARRIER, BROADCAST, GATHER,
                     RECV, REDUCE, REDUCE_SCATTER, SCATTER, SEND, PreMulSum, element, name_of, request, type_of)
from ._fusion import Fusion
from ._one_sided import OneSided, Window


class Communicator(OneSided):
    """One rank's membership in a communicator, on one device. Make one with init, from_bootstrap, from_env or init_all.

    Calls of one communicator come in the same order on every rank. A communicator that is forgotten is destroyed; at a
    clean exit too.
    """

    def allreduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: ReduceOp | PreMulSum = ReduceOp.SUM, *,
                  stream: StreamSpec = None) -> None:
        """Every rank's recvbuf gets the reduction of all sendbufs, the same bits everywhere. Both may be one buffer."""
        self._run(ALL_REDUCE, sendbuf, recvbuf, 1, 1, op, 0, stream)

    all_reduce = allreduce

    def reduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec | None, op: ReduceOp | PreMulSum = ReduceOp.SUM,
               root: int | None = None, *, stream: StreamSpec = None) -> None:
        """root's recvbuf gets the reduction of all sendbufs; other ranks may pass None for recvbuf. root None: every
        rank gets it."""
        if root is None:
            if recvbuf is None:
                raise self._wrong(REDUCE, "without a root every rank passes recvbuf")
            return self.allreduce(sendbuf, recvbuf, op, stream=stream)
        self._run(REDUCE, sendbuf, self._at(root, recvbuf), 1, 1, op, root, stream)

    def broadcast(self, sendbuf: BufferSpec | None, recvbuf: BufferSpec | None = None, root: int = 0, *,
                  stream: StreamSpec = None) -> None:
        """Every rank's recvbuf gets root's sendbuf; other ranks may pass None for sendbuf. recvbuf None: in place in
        sendbuf."""
        if recvbuf is not None:
            sendbuf = self._at(root, sendbuf)
        self._run(BROADCAST, sendbuf, sendbuf if recvbuf is None else recvbuf, 1, 1, 0, root, stream)

    def allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec, *, stream: StreamSpec = None) -> None:
        """recvbuf, nranks times as long as sendbuf, gets everybody's sendbuf in rank order."""
        self._run(ALL_GATHER, sendbuf, recvbuf, 1, self._size, 0, 0, stream)

    all_gather = allgather

    def gather(self, sendbuf: BufferSpec, recvbuf: BufferSpec | None, root: int | None = None, *,
               stream: StreamSpec = None) -> None:
        """root's recvbuf, nranks times as long as sendbuf, gets everybody's sendbuf. root None: every rank's does."""
        if root is None:
            if recvbuf is None:
                raise self._wrong(GATHER, "without a root every rank passes recvbuf")
            return self.allgather(sendbuf, recvbuf, stream=stream)
        self._run(GATHER, sendbuf, self._at(root, recvbuf), 1, self._size, 0, root, stream)

    def scatter(self, sendbuf: BufferSpec | None, recvbuf: BufferSpec, root: int = 0, *,
                stream: StreamSpec = None) -> None:
        """Rank i's recvbuf gets slice i of root's sendbuf, which is nranks times as long; other ranks may pass None for
        sendbuf."""
        self._run(SCATTER, self._at(root, sendbuf), recvbuf, self._size, 1, 0, root, stream)

    def reduce_scatter(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: ReduceOp | PreMulSum = ReduceOp.SUM, *,
                       stream: StreamSpec = None) -> None:
        """Rank i's recvbuf gets the reduction of slice i of all sendbufs, which are nranks times as long."""
        self._run(REDUCE_SCATTER, sendbuf, recvbuf, self._size, 1, op, 0, stream)

    def alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec, *, stream: StreamSpec = None) -> None:
        """Slice p of sendbuf goes to slice rank of p's recvbuf; both are nranks slices long."""
        self._run(ALL_TO_ALL, sendbuf, recvbuf, self._size, self._size, 0, 0, stream)

    all_to_all = alltoall

    def alltoallv(self, sendbuf: BufferSpec | None, recvbuf: BufferSpec | None, sendcounts: Sequence[int],
                  sdispls: Sequence[int], recvcounts: Sequence[int], rdispls: Sequence[int],
                  relaybuf: BufferSpec | None = None, *, stream: StreamSpec = None) -> None:
        """All-to-all in which every pair of ranks has its length and displacements.

        The four arrays have nranks² entries, row-major, and row i is rank i's view, all in elements: it sends
        sendcounts[i·n+j] from sdispls[i·n+j] of its sendbuf to j, and receives recvcounts[i·n+j] from j at
        rdispls[i·n+j] of its recvbuf. Rank i's own row alone, nranks entries, will do; but either all ranks give all
        counts or none does. With all counts, small messages to another host are sent together. The arrays are copied.
        Buffers of ranks that send or receive nothing may be None. relaybuf is accepted and not needed: goccl relays
        only data that fits into its scratch memory.
        """
        n = self._size
        rows, full = [], []
        for name, a in (("sendcounts", sendcounts), ("sdispls", sdispls), ("recvcounts", recvcounts),
                        ("rdispls", rdispls)):
            a = a.tolist() if hasattr(a, "tolist") else list(a)
            if len(a) not in (n, n * n):
                raise self._wrong(ALL_TO_ALL_V, f"{name} has {len(a)} entries, neither nranks² = {n * n} nor, for this "
                                                f"rank's row, {n}")
            if a and min(a) < 0:
                raise self._wrong(ALL_TO_ALL_V, f"{name} has the negative entry {min(a)}")
            full.append(a if len(a) == n * n else None)
            rows.append(a[self._rank * n:(self._rank + 1) * n] if len(a) == n * n else a)
        if n > 1 and full[0] is not None and full[2] is not None:
            for i, j in itertools.product(range(n), repeat=2):
                if full[0][i * n + j] != full[2][j * n + i]:
                    raise self._wrong(ALL_TO_ALL_V, f"rank {i} sends {full[0][i * n + j]} elements to {j}, which "
                                                    f"receives {full[2][j * n + i]} from {i}")
        s = resolve(sendbuf) if sendbuf is not None else None
        r = resolve(recvbuf) if recvbuf is not None else None
        for what, b, counts, displs in (("sendbuf", s, rows[0], rows[1]), ("recvbuf", r, rows[2], rows[3])):
            for p in range(n):
                if counts[p] and (b is None or displs[p] + counts[p] > b.count):
                    raise self._wrong(ALL_TO_ALL_V, f"rank {p}'s part of {what}, elements {displs[p]} to "
                                                    f"{displs[p] + counts[p]}, is beyond its "
                                                    f"{0 if b is None else b.count} elements")
        one = s or r or Buffer(0, 0, DataType.uint8, 1, HOST if self._host else CUDA, 0, None)
        if s is not None and r is not None and (s.dtype != r.dtype or s.itemsize != r.itemsize):
            raise self._wrong(ALL_TO_ALL_V, "sendbuf and recvbuf have different element types")
        if any(rows[2]):
            self._writable(ALL_TO_ALL_V, r)
        scale = 1 if one.dtype is not None else one.itemsize
        arrays = [array("counts and displacements", ctypes.c_int64, [x * scale for x in row]) for row in rows]
        config = None
        if full[0] is not None and full[2] is not None:
            arrays.append(array("sendcounts", ctypes.c_int64, [x * scale for x in full[0]]))
            config = CallConfig(size=ctypes.sizeof(CallConfig), all_counts=ctypes.addressof(arrays[4]))
        self._check(s, r)
        self._post(ALL_TO_ALL_V, type_of(one), 0, 0, s.ptr if s else 0, r.ptr if r else 0, 0, stream,
                   (s, r, arrays, config), *map(ctypes.addressof, arrays[:4]), 0, 0,
                   ctypes.addressof(config) if config else 0)

    def alltoallv_device(self, sendbuf: BufferSpec | None, recvbuf: BufferSpec | None, sendcounts: BufferSpec,
                         sdispls: BufferSpec, recvcounts: BufferSpec, rdispls: BufferSpec, *,
                         stream: StreamSpec = None) -> None:
        """alltoallv with counts that are read on the device when the call runs on its stream: an earlier kernel of the
        stream may compute them, and a captured CUDA graph reads them anew at each replay. goccl's own: nccl4py has no
        such call.

        The four arrays are this rank's view, int64, nranks entries each, in elements, in memory of the device; they
        must stay as they are until the call has run. Negative counts are taken for 0. When the call runs, what lies
        outside of the buffers is an error, and is not touched. Every rank makes this call, not alltoallv.
        """
        what, n = ALL_TO_ALL_V_DEVICE, self._size
        arrays = []
        for name, a in (("sendcounts", sendcounts), ("sdispls", sdispls), ("recvcounts", recvcounts),
                        ("rdispls", rdispls)):
            b = resolve(a)
            if b.dtype != DataType.int64 or b.count != n:
                raise self._wrong(what, f"{name} holds {b.count} {name_of(b)}: want {n} int64")
            self._check(b)
            arrays.append(b)
        s = resolve(sendbuf) if sendbuf is not None else None
        r = resolve(recvbuf) if recvbuf is not None else None
        one = s or r
        if one is None:
            raise self._wrong(what, "one of sendbuf and recvbuf must say what an element is")
        self._same(what, s, r, 0, 0)
        self._check(s, r)
        self._writable(what, r)
        # The counts cannot be scaled here, so a type that is only moved goes as one of its size.
        number = one.dtype if one.dtype is not None else {1: DataType.uint8, 2: DataType.float16, 4: DataType.uint32,
                                                          8: DataType.uint64}.get(one.itemsize)
        if number is None:
            raise self._wrong(what, f"{name_of(one)}: sizes are 1, 2, 4 and 8")
        self._post(what, int(number), 0, 0, s.ptr if s and s.count else 0, r.ptr if r and r.count else 0, 0, stream,
                   (s, r, arrays), *(a.ptr for a in arrays), s.count if s else 0, r.count if r else 0, 0)

    def send(self, sendbuf: BufferSpec, peer: int, *, stream: StreamSpec = None) -> None:
        """Sends to peer, which must recv as much. To exchange both ways at once, put both calls into one group."""
        self._run(SEND, sendbuf, None, 1, 1, 0, peer, stream)

    def recv(self, recvbuf: BufferSpec, peer: int, *, stream: StreamSpec = None) -> None:
        """Receives from peer."""
        self._run(RECV, None, recvbuf, 1, 1, 0, peer, stream)

    def barrier(self, *, stream: StreamSpec = None) -> None:
        """Later work on stream waits until every rank's stream got here."""
        self._post(BARRIER, 0, 0, 0, 0, 0, 0, stream, None)

    def create_pre_mul_sum(self, scalar: Any, datatype: DataType | None = None) -> PreMulSum:
        """An operator that multiplies each input by scalar, then sums: a number with its datatype, or a one-element
        array, which is read now on the host and at each call on a GPU."""
        if datatype is not None:
            number = lib.op_create(self._handle, int(datatype), element(scalar, DataType(datatype)), 1)
            return PreMulSum(self._handle, number, None)
        b = resolve(scalar)
        if b.dtype is None or b.count != 1:
            raise errors.InvalidArgument("the factor is one element of a known type")
        return PreMulSum(self._handle, lib.op_create(self._handle, int(b.dtype), b.ptr, int(b.kind != CUDA)), b)

    # Resources that goccl manages by itself.

    def register_buffer(self, buffer: BufferSpec) -> None:
        """Nothing: collectives work on any memory."""
        return None

    def fusion(self, row_bytes: int = 0, scratch_bytes: int = 0) -> Fusion:
        """A workspace for fused all-reduces. Collective. row_bytes is the largest row that one kernel takes (0: 16
        KiB), scratch_bytes the memory for sums that the caller does not want (0: 16 MiB)."""
        return Fusion(self, row_bytes, scratch_bytes)

    def register_window(self, buffer: BufferSpec, flags: int = 0) -> Window | None:
        """With flags 1 (NCCL_WIN_COLL_SYMMETRIC) a window, by which copy engines reach the peers unless
        GOCCL_COPY_ENGINE=0 is set, and the target of put_signal; otherwise None: collectives work on any memory. All
        ranks register the same windows in the same order."""
        if not flags & 1:
            return None
        return Window(self._handle, self.nranks, buffer)
