"""The examples under mpirun, with mpi4py and by MPI's environment alone."""

import functools
import importlib.metadata
import os
import shutil
import subprocess

import pytest

import jobs

EXAMPLES = os.path.join(jobs.ROOT, "python", "examples")


# The one beside this Python goes with its mpi4py.
PATH = os.path.dirname(jobs.PYTHON) + os.pathsep + os.environ["PATH"]
MPIRUN = shutil.which("mpirun", path=PATH)


def _mpirun(n, *command, environment=os.environ):
    if MPIRUN is None:
        pytest.skip("no mpirun")
    version = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, timeout=60).stdout
    flags = ["--oversubscribe"] if "Open MPI" in version else []
    env = environment | {"PATH": PATH, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                         "OMPI_MCA_btl": "self,vader,tcp"}
    return subprocess.run([MPIRUN, *flags, "-np", str(n), jobs.PYTHON, *command], capture_output=True, text=True,
                          timeout=120, env=env)


@functools.cache
def _loads():
    return jobs.python("from mpi4py import MPI").returncode == 0


def _mpi4py():
    if not _loads():
        pytest.skip("no mpi4py, or no MPI library that it can load")


def test_what_was_installed_for_these_tests_works():
    try:
        importlib.metadata.distribution("openmpi")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no openmpi beside this Python: python/tests/requirements.txt names it")
    assert MPIRUN and _loads()


@pytest.mark.parametrize("name", ["03_alltoallv", "mesh", "default_allreduce", "dsl_allreduce"])
def test_with_mpi4py(name):
    _mpi4py()
    p = _mpirun(4, os.path.join(EXAMPLES, name + ".py"))
    assert p.returncode == 0 and p.stdout.count("OK") == 4, p.stdout + p.stderr


@pytest.mark.parametrize("name", ["03_alltoallv", "mesh"])
def test_by_the_environment(name, tmp_path):
    """With an mpi4py that cannot be loaded."""
    p = _mpirun(4, os.path.join(EXAMPLES, name + ".py"), environment=jobs.without_mpi(tmp_path))
    assert p.returncode == 0 and p.stdout.count("OK") == 4, p.stdout + p.stderr


def test_a_wrong_value_on_one_rank_is_an_exit_status(tmp_path):
    """The example's check fails on rank 2 alone."""
    with open(os.path.join(EXAMPLES, "03_alltoallv.py"), encoding="utf-8") as f:
        source = f.read()
    at = "    expected = "
    assert source.count(at) == 1
    line = source[source.index(at):].split("\n", 1)[0]
    spoilt = tmp_path / "alltoallv.py"
    spoilt.write_text(source.replace(line, line + "\n    expected = expected + (rank == 2)"))
    p = _mpirun(4, str(spoilt))
    assert p.returncode != 0 and p.stdout.count("OK") == 3 and "FAIL" in p.stdout, p.stdout + p.stderr


SEED = """
import goccl
goccl.install_alias()
from mpi4py import MPI
from mscclpp import GpuBuffer, ProxyService, Transport
import mscclpp.comm as mscclpp_comm
import numpy as cp

def create_connection(group: mscclpp_comm.CommGroup, transport: str):
    remote_nghrs = list(range(group.nranks))
    remote_nghrs.remove(group.my_rank)
    if transport == "NVLink":
        tran = Transport.CudaIpc
    elif transport == "IB":
        tran = group.my_ib_device(group.my_rank % 8)
    else:
        assert False
    return group.make_connection(remote_nghrs, tran)

group = mscclpp_comm.CommGroup(MPI.COMM_WORLD)
connections = create_connection(group, "NVLink")
nelems = 1024
memory = GpuBuffer(nelems, dtype=cp.int32)
n, me = group.nranks, group.my_rank
part = nelems // n
memory[me * part:(me + 1) * part] = me + 1
proxy_service = ProxyService()
simple_channels = group.make_proxy_channels(proxy_service, memory, connections)
proxy_service.start_proxy()
group.barrier()
assert {len(c.device_handle().raw) for c in simple_channels.values()} == {144}
for c in simple_channels.values():  # what the seed's kernel does, by the calling thread
    c.put_with_signal_and_flush(4 * part * me, 4 * part * me, 4 * part)
    c.wait()
group.barrier()
assert (memory == cp.repeat(cp.arange(1, n + 1), part)).all(), memory
try:
    create_connection(group, "IB")
except goccl.Unsupported as e:
    assert "InfiniBand" in str(e)
private = cp.zeros(nelems, dtype=cp.int32)
try:
    group.make_proxy_channels(proxy_service, private, connections)
except goccl.InvalidArgument as e:
    assert "goccl.GpuBuffer" in str(e)
else:
    raise AssertionError("private memory cannot be shared")
proxy_service.stop_proxy()
print("OK", flush=True)
"""


def test_the_seeds_program_with_its_own_imports():
    _mpi4py()
    p = _mpirun(4, "-c", SEED)
    assert p.returncode == 0 and p.stdout.count("OK") == 4, p.stdout + p.stderr
