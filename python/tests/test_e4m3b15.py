"""float8_e4m3b15: its values, its rounding, and its reductions on the host device."""

import numpy as np
import pytest

import goccl
from goccl import _e4m3b15
from goccl.language import (AllReduce, Buffer, CollectiveProgram, Custom, MemoryChannel, Rank, Reduce, ReduceScatter,
                            SyncType)
from test_default_algos import in_threads

B15 = goccl.DataType.float8_e4m3b15
EVERY = np.arange(256, dtype=np.uint8)


def value(byte):
    sign, exponent, mantissa = -1 if byte & 0x80 else 1, byte >> 3 & 15, byte & 7
    return sign * (2.0 ** (exponent - 15) * (1 + mantissa / 8) if exponent else 2.0 ** -14 * mantissa / 8)


def test_values_and_rounding():
    values = np.array([value(int(b)) for b in EVERY], np.float32)
    np.testing.assert_array_equal(_e4m3b15.widen(EVERY), values)
    np.testing.assert_array_equal(_e4m3b15.narrow(values), EVERY)
    positive = values[:128]
    between = (positive[1:] + positive[:-1]) / 2
    np.testing.assert_array_equal(_e4m3b15.narrow(between), EVERY[1:128])  # halves go away from zero
    np.testing.assert_array_equal(_e4m3b15.narrow(between * np.float32(0.98)), EVERY[:127])
    np.testing.assert_array_equal(_e4m3b15.narrow(np.array([1e9, -3, np.inf], np.float32)), [0x7F, 0xFF, 0x7F])
    assert B15.itemsize == 1 and goccl.DataType.of("float8_e4m3b15") is B15


def _plan(collective):
    """A plan in which the owner of each chunk gets its peer's by packets."""
    with CollectiveProgram("p", collective, 2, protocol="LL", use_double_scratch_buffer=True,
                           max_message_size=1 << 20) as p:
        chunks, (_, outputs) = collective.chunks()[0], collective.chunks()
        scratch = [Buffer(r, 2 * chunks) for r in range(2)]
        channels = [MemoryChannel(1 - r, r) for r in range(2)]
        if collective.name == "reduce":  # only the root hears from its peer, so it says when its scratch is free
            channels[0].signal(tb=0, relaxed=True)
            channels[1].wait(tb=0, relaxed=True, data_sync=SyncType.after)
        for r in range(collective.name == "reduce", 2):
            channels[r].put_packets(scratch[1 - r][0:chunks], Rank(r).get_input_buffer()[:], tb=0)
        for r in range(2):
            first = r if collective.name == "reducescatter" else 0
            if collective.name == "reduce" and r:
                continue
            source = Rank(r).get_input_buffer()[first:first + outputs]
            Rank(r).reduce(source, [scratch[r][first:first + outputs]], tb=0, packet=True,
                           dst_chunk=Rank(r).get_output_buffer()[:])
    return goccl.ExecutionPlan(p.compile())


def test_reductions():
    n, count = 2, 256

    def rank(r, boot):
        group = goccl.CommGroup(bootstrap=boot, device=goccl.Device(goccl.DeviceType.CPU, r))
        inputs = [np.random.default_rng(q).permutation(np.repeat(EVERY, 2))[:count] for q in range(n)]
        total = _e4m3b15.narrow(_e4m3b15.widen(inputs[0]) + _e4m3b15.widen(inputs[1]))
        least = _e4m3b15.narrow(np.minimum(_e4m3b15.widen(inputs[0]), _e4m3b15.widen(inputs[1])))
        half = slice(r * count // 2, (r + 1) * count // 2)
        own = inputs[r].copy()
        defaults = {a.collective: a for a in goccl.AlgorithmCollectionBuilder().build_default_algorithms()}
        stream = goccl.Stream(group.device)

        def check(collective, want, op=goccl.ReduceOp.SUM, stream=0):
            out = np.full(len(want), 3, np.uint8)
            defaults[collective].execute(group.communicator, own.ctypes.data, out.ctypes.data, own.nbytes, out.nbytes,
                                         B15, op, stream)
            np.testing.assert_array_equal(out, want, err_msg=collective)
            np.testing.assert_array_equal(own, inputs[r])

        check("allreduce", total)
        check("allreduce", total, stream=stream.cuda_stream)
        check("allreduce", least, goccl.ReduceOp.MIN)
        check("reducescatter", total[half])
        check("reduce", total if r == 0 else np.full(count, 3))
        check("allgather", np.concatenate(inputs))
        inplace = own.copy()
        defaults["allreduce"].execute(group.communicator, inplace.ctypes.data, inplace.ctypes.data, count, count, B15,
                                      accum_dtype=goccl.DataType.float32)
        np.testing.assert_array_equal(inplace, total)

        executor = goccl.Executor(group.communicator)
        for collective, want in ((AllReduce(2, 1), total), (ReduceScatter(2, 1), total[half]),
                                 (Reduce(2, 1), total if r == 0 else np.full(count, 3))):
            out = np.full(len(want), 3, np.uint8)
            executor.execute(r, own.ctypes.data, out.ctypes.data, own.nbytes, out.nbytes, B15, _plan(collective))
            np.testing.assert_array_equal(out, want, err_msg=collective.name)
        custom = Custom("custom", 2, 1, 1, False, lambda rank, chunk: [(rank, chunk)])
        with CollectiveProgram("copy", custom, 2, max_message_size=1 << 20) as p:
            for q in range(2):
                Rank(q).copy(Rank(q).get_output_buffer()[:], Rank(q).get_input_buffer()[:], tb=0)
        with pytest.raises(goccl.Unsupported, match="custom collective"):
            executor.execute(r, own.ctypes.data, own.ctypes.data, count, count, B15, goccl.ExecutionPlan(p.compile()))
        group.barrier()
        executor.close()

    in_threads(n, rank)


def test_the_kernels_compile(monkeypatch):
    from goccl.utils import compile_source
    from test_native import _nvrtc

    monkeypatch.setenv("GOCCL_NVRTC", _nvrtc())
    image = compile_source(_e4m3b15._SOURCE, "e4m3b15.cu", arch=(9, 0))
    assert b"widen" in image and b"narrow" in image
