"""Every example that makes sense without a GPU."""

import os
import subprocess

import pytest

import jobs


def _program():
    from goccl.__main__ import _program

    return _program()


@pytest.mark.parametrize("name", ["03_alltoallv", "mesh", "dsl_allreduce", "default_allreduce", "gemm_overlap"])
def test_example(name):
    if _program() is None:
        pytest.skip("the goccl program is not built")
    p = subprocess.run([jobs.PYTHON, "-m", "goccl", "run", "-n", "4", "--", jobs.PYTHON,
                        os.path.join(jobs.ROOT, "python", "examples", name + ".py")],
                       capture_output=True, text=True, timeout=120)
    assert p.returncode == 0 and p.stdout.count("OK") == 4, p.stdout + p.stderr


@pytest.mark.parametrize("name", ["03_alltoallv", "mesh"])
def test_example_where_mpi_cannot_be_loaded(name, tmp_path):
    """mpi4py's wheel can be installed where no MPI library is: importing its MPI then raises RuntimeError."""
    p = subprocess.run([jobs.PYTHON, "-m", "goccl", "run", "-n", "2", "--", jobs.PYTHON,
                        os.path.join(jobs.ROOT, "python", "examples", name + ".py")],
                       capture_output=True, text=True, timeout=120, env=jobs.without_mpi(tmp_path))
    assert p.returncode == 0 and p.stdout.count("OK") == 2, p.stdout + p.stderr


def test_native_example_says_that_it_needs_a_gpu():
    p = subprocess.run([jobs.PYTHON, os.path.join(jobs.ROOT, "python", "examples", "native_allgather.py")],
                       capture_output=True, text=True, timeout=120)
    assert p.returncode == 77 and "no GPU" in p.stdout


def test_training_survives_a_death():
    """A rank is killed, the others shrink and grow again: the losses equal an undisturbed run's."""
    pytest.importorskip("torch")
    p = subprocess.run([jobs.PYTHON, os.path.join(jobs.ROOT, "python", "examples", "elastic.py")], capture_output=True,
                       text=True, timeout=300)
    assert p.returncode == 0 and p.stdout.count("OK") == 1, p.stdout + p.stderr
    assert "peer 1" in p.stderr  # the dead rank is named
