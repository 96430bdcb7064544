"""Every timeout that is given is the one that holds: a longer one than the default too."""

import threading
import time

import pytest

import goccl
import jobs

LATE = """
import threading, time
import goccl

a, b = goccl.Bootstrap.local(2)                  # GOCCL_TIMEOUT is 0.2 s

def late(call, *arguments):
    def run():
        time.sleep(0.5)
        call(*arguments)
    t = threading.Thread(target=run)
    t.start()
    return t

def fails(call):
    try:
        call()
    except goccl.Timeout:
        return True

def both(slow, quick):
    t = late(slow)
    got = quick()
    t.join()
    return got

assert both(lambda: a.send(b"x", 1), lambda: b.recv(0, timeout=60)) == b"x"
assert both(lambda: a.all_gather(b"a", timeout=60), lambda: b.all_gather(b"b", timeout=60)) == [b"a", b"b"]
both(lambda: a.barrier(timeout=60), lambda: b.barrier(timeout=60))
assert both(lambda: a.broadcast(b"y"), lambda: b.broadcast(None, timeout=60)) == b"y"
assert fails(lambda: b.recv(0, tag=1))           # without one the default holds

groups = [None, None]
def make(r, boot):
    groups[r] = goccl.CommGroup(bootstrap=boot)
threads = [threading.Thread(target=make, args=x) for x in enumerate((a, b))]
[t.start() for t in threads]; [t.join() for t in threads]
futures = [g.communicator.connect(goccl.EndpointConfig(goccl.Transport.CudaIpc, g.device), 1 - r)
           for r, g in enumerate(groups[:2])]
connections = [f.get() for f in futures]
futures = [groups[r].communicator.build_semaphore(connections[r], 1 - r) for r in range(2)]
one, two = (f.get() for f in futures)
both(one.signal, lambda: two.wait(timeout=60))
assert fails(two.wait)
"""


def test_a_longer_timeout_than_the_default():
    p = jobs.python(LATE, GOCCL_TIMEOUT="0.2")
    assert p.returncode == 0, p.stderr


def test_a_shorter_timeout_than_the_default():
    a, _ = goccl.Bootstrap.local(2)
    for call in (lambda: a.recv(1, timeout=0.05), lambda: a.barrier(timeout=0.05),
                 lambda: a.all_gather(b"", timeout=0.05), lambda: a.broadcast(None, 1, timeout=0.05)):
        with pytest.raises(goccl.Timeout):
            call()


def test_joining_obeys_the_environment():
    code = ("import goccl\ntry:\n goccl.TcpBootstrap.create(1, 2).initialize('lo:127.0.0.1:1')\n"
            "except goccl.GocclError as e:\n print(type(e).__name__)\n")
    start = time.monotonic()
    p = jobs.python(code, GOCCL_TIMEOUT="0.3")
    assert p.returncode == 0 and time.monotonic() - start < 25, p.stderr
