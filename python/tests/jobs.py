"""Jobs of several processes for tests."""

import atexit
import multiprocessing as mp
import os
import queue
import signal
import socket
import subprocess
import sys
import time
import traceback

_context = mp.get_context("forkserver")
_preloaded = ["numpy", "goccl.nccl", "goccl.comm", "goccl.collection", "goccl.language"]


def preload(*modules):
    """Modules that every rank is to begin with; for test modules to call when they are imported."""
    _preloaded.extend(m for m in modules if m not in _preloaded)
    _context.set_forkserver_preload(_preloaded)


preload()

PYTHON = sys.executable
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _rank(function, rank, n, uid, args, results, over):
    try:
        function(rank, n, uid, *args)
        results.put((rank, None))
    except BaseException:
        results.put((rank, traceback.format_exc()))
    over.wait(60)  # a process that ends while a peer's last call runs is a death to that peer


def run(n, function, *args, timeout=120, victim=None):
    """function(rank, n, uid, *args) in n processes; uid is an address at which they can meet. Raises what a rank
    raised. The rank victim is to end itself by SIGKILL, and all others are waited for all the same."""
    results, over = _context.Queue(), _context.Event()
    uid = address()
    ranks = [_context.Process(target=_rank, args=(function, r, n, uid, args, results, over)) for r in range(n)]
    for p in ranks:
        p.start()
    end = time.monotonic() + timeout
    failures, done = [], 0
    try:
        while done < n - (victim is not None):
            try:
                rank, failure = results.get(timeout=0.2)
            except queue.Empty:
                dead = [r for r, p in enumerate(ranks) if p.exitcode not in (None, 0) and r != victim]
                if dead:
                    failures.append(f"ranks {dead} died with {[ranks[r].exitcode for r in dead]}")
                    break
                if time.monotonic() > end:
                    failures.append(f"{sum(p.is_alive() for p in ranks)} of {n} ranks still run after {timeout} s")
                    break
                continue
            done += 1
            if failure:
                failures.append(f"rank {rank}:\n{failure}")
                end = min(end, time.monotonic() + 5)
    finally:
        over.set()
        for r, p in enumerate(ranks):
            p.join(5 if failures else 60)
            if p.is_alive():
                failures.append(f"rank {r} does not end")
                p.kill()
                p.join()
    assert not failures, "\n".join(failures)
    assert [p.exitcode for p in ranks] == [-signal.SIGKILL if r == victim else 0 for r in range(n)]


_held = []


@atexit.register
def _release():
    for s in _held:
        s.close()


def address():
    """An address of this machine for ranks to meet at. The port stays bound here, so that nobody else is given it;
    those who know it can still listen there, because both sides set SO_REUSEADDR and this one does not listen."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    _held.append(s)
    return f"lo:127.0.0.1:{s.getsockname()[1]}"


def communicator(rank, n, uid):
    """The job's nccl.Communicator."""
    from goccl import TcpBootstrap, nccl

    b = TcpBootstrap.create(rank, n)
    b.initialize(uid)
    return nccl.Communicator.from_bootstrap(b)


def without_mpi(folder):
    """The environment of a process that finds an mpi4py in folder whose MPI cannot be loaded."""
    (folder / "mpi4py").mkdir()
    (folder / "mpi4py" / "__init__.py").write_text("")
    (folder / "mpi4py" / "MPI.py").write_text("raise RuntimeError('cannot load MPI library')\n")
    return os.environ | {"PYTHONPATH": str(folder) + os.pathsep + os.environ["PYTHONPATH"]}


def python(code, *arguments, timeout=120, **environment):
    """Runs code in a fresh interpreter; returns the finished process."""
    return subprocess.run([PYTHON, "-c", code, *arguments], capture_output=True, text=True, timeout=timeout,
                          env=os.environ | environment)
