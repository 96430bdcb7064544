"""Nothing leaks, nothing hangs."""

import gc
import os
import random
import signal
import threading
import time

import numpy as np
import pytest

import goccl
import jobs
from goccl import nccl


FULL = os.environ.get("GOCCL_FULL") == "1"
CYCLES = 10_000 if FULL else 200


def _state():
    gc.collect()
    with open("/proc/self/status", encoding="ascii") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    with open("/proc/self/maps", encoding="ascii") as f:
        maps = sum(1 for _ in f)
    return len(os.listdir("/proc/self/fd")), maps, rss, len(os.listdir("/proc/self/task"))


def _assert_nothing_grew(before, after, kib=32 << 10):
    assert after[0] <= before[0] + 4, f"file descriptors: {before[0]} → {after[0]}"
    assert after[1] <= before[1] + 192, f"mappings: {before[1]} → {after[1]}"
    assert after[2] <= before[2] + kib, f"KiB resident: {before[2]} → {after[2]}"
    assert after[3] <= before[3] + 32, f"threads: {before[3]} → {after[3]}"


def _cycle():
    ctx = goccl.Context()
    ep = ctx.create_endpoint(goccl.Transport.CudaIpc)
    conn = ctx.connect(ep, ep)
    stub = goccl.SemaphoreStub(conn)
    raw = goccl.RawGpuBuffer(4096)
    mem = ctx.register_memory(raw)
    things = [ctx, ep, conn, stub, raw, mem, goccl.Semaphore(stub, stub), mem.serialize()]
    random.shuffle(things)
    while things:
        things.pop()


def test_thousands_of_cycles():
    """A cycle that leaves 2 KiB behind is found. The first thousand make room for garbage."""
    for _ in range(1000):
        _cycle()
    before = _state()
    for _ in range(10_000 if FULL else 3000):
        _cycle()
    _assert_nothing_grew(before, _state(), (20 if FULL else 6) << 10)


def test_communicators_come_and_go():
    a = [np.ones(10, np.float32), np.ones(10, np.float32)]

    def cycle():
        comms = nccl.Communicator.init_all(2)
        with nccl.group():
            for c, x in zip(comms, a):
                c.allreduce(x, x)
        for c in comms:
            c.destroy()

    for _ in range(5):
        cycle()
    before = _state()
    for _ in range(CYCLES):
        cycle()
    _assert_nothing_grew(before, _state())


def test_groups_with_proxies_come_and_go():
    """A job's whole set-up, and what hangs on it, dropped in any order."""

    def rank(b):
        group = goccl.CommGroup(bootstrap=b)
        connections = group.make_connection([0, 1], goccl.Transport.CudaIpc)
        memory = goccl.GpuBuffer(64, dtype=np.uint8)
        service = goccl.ProxyService()
        things = [group.make_port_channels(service, memory, connections),
                  group.make_memory_channels(memory, connections), memory, connections, group]
        service.start_proxy()
        group.barrier()
        service.stop_proxy()
        group.barrier()
        things.append(service)
        del group, connections, memory, service
        random.shuffle(things)
        while things:
            things.pop()

    def cycle():
        threads = [threading.Thread(target=rank, args=(b,)) for b in goccl.Bootstrap.local(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)

    for _ in range(5):
        cycle()
    before = _state()
    for _ in range(CYCLES):
        cycle()
    _assert_nothing_grew(before, _state())


INTERRUPTED = """
import sys, time, threading, signal
import numpy as np, goccl
from goccl import nccl
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background is started with SIGINT ignored
comms = nccl.Communicator.init_all(2)
locals_ = goccl.Bootstrap.local(2)
t = time.monotonic()
try:
    # The kernel may choose any thread for a process's signal; one that another thread gets wakes nobody.
    threading.Timer(0.7, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)).start()
    %s
except KeyboardInterrupt:
    waited = time.monotonic() - t
    print("interrupted", waited < 25)  # the wait's own deadline is 30 s
    sys.exit(0)
print("not interrupted")
"""


@pytest.mark.parametrize("wait", [
    "comms[0].allreduce(np.ones(3), np.ones(3))",
    "locals_[0].recv(1)",
    "locals_[0].barrier()",
    "goccl.Communicator(locals_[0]).recv_memory(1).get()",
    "goccl.TcpBootstrap.create(0, 2).initialize('lo:127.0.0.1:0' if False else '%s')",
    "nccl.Communicator.init(2, 0, nccl.get_unique_id())",
])
def test_ctrl_c_ends_a_wait(wait):
    if "%s" in wait:
        wait = wait % jobs.address()
    p = jobs.python(INTERRUPTED % wait, timeout=120)
    assert p.returncode == 0 and "interrupted True" in p.stdout, p.stdout + p.stderr


def test_an_exception_does_not_hang_the_exit():
    code = """
import numpy as np, goccl
from goccl import nccl
comms = nccl.Communicator.init_all(2)
s = goccl.Stream(comms[0].device)
a = np.ones(3)
comms[0].allreduce(a, a, stream=s)   # its peer never comes
raise SystemError("the program is wrong")
"""
    t = time.monotonic()
    p = jobs.python(code, timeout=120)
    assert p.returncode == 1 and "the program is wrong" in p.stderr and time.monotonic() - t < 60


def test_threads_let_each_other_run():
    """A call that waits holds no GIL."""
    a, b = goccl.Bootstrap.local(2)
    got = []
    t = threading.Thread(target=lambda: got.append(a.recv(1)))
    t.start()
    time.sleep(0.1)
    b.send(b"hello", 0)
    t.join(60)
    assert got == [b"hello"]


def test_timeouts_are_exceptions_of_two_kinds():
    a, _ = goccl.Bootstrap.local(2)
    with pytest.raises(goccl.Timeout) as e:
        a.recv(1, timeout=0.05)
    assert isinstance(e.value, TimeoutError) and e.value.code == 8
