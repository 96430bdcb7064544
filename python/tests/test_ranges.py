"""Numbers that the ABI's integers cannot hold are refused; ctypes would drop their high bits."""

import ctypes
import importlib
import pkgutil
import re

import numpy as np
import pytest

import goccl
from goccl import nccl, utils
from goccl._abi import SIGNATURES, FusedRequest, MoeCombineArgs, Request
from goccl._checked import Structure, bounds, fit, packer
from goccl._lib import _TYPES, lib

BIG = 2**32 + 5


def _pair():
    a = goccl.Bootstrap.local(1)[0]
    return a, goccl.Communicator(a)


CALLS = {
    "tag of a send": lambda b, c: b.send(b"x", 0, BIG),
    "tag of a receive": lambda b, c: b.recv(0, BIG, timeout=0.1),
    "negative tag": lambda b, c: b.send(b"x", 0, -BIG),
    "peer": lambda b, c: b.send(b"x", 2**32, 0),
    "rank of a memory": lambda b, c: c.recv_memory(2**32, 0),
    "tag of a memory": lambda b, c: c.recv_memory(0, BIG),
    "number of ranks": lambda b, c: goccl.Bootstrap.local(2**32 + 1),
    "timeout": lambda b, c: b.recv(0, 1, timeout=1e10),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_the_abi_cannot_hold_is_refused(call):
    with pytest.raises(goccl.InvalidArgument, match="is out of range: want a number from"):
        CALLS[call](*_pair())


def test_a_message_with_another_tag_is_not_taken():
    b, _ = _pair()
    b.send(b"five", 0, 5)
    with pytest.raises(goccl.InvalidArgument, match=str(BIG)):
        b.recv(0, BIG)
    assert b.recv(0, 5) == b"five"


MEMBERS = {"color": lambda c: c.split(2**32, 0), "key": lambda c: c.split(0, -2**31 - 1),
           "excluded rank": lambda c: c.shrink([2**32])}


@pytest.mark.parametrize("call", MEMBERS)
def test_colors_keys_and_ranks_of_members(call):
    with pytest.raises(goccl.InvalidArgument, match="is out of range"):
        MEMBERS[call](nccl.Communicator.init_all(1)[0])


KINDS = [(ctypes.c_int32, -2**31, 2**31 - 1), (ctypes.c_uint32, 0, 2**32 - 1), (ctypes.c_int64, -2**63, 2**63 - 1),
         (ctypes.c_uint64, 0, 2**64 - 1), (ctypes.c_uint16, 0, 2**16 - 1), (ctypes.c_void_p, 0, 2**64 - 1)]


@pytest.mark.parametrize("kind, low, high", KINDS)
def test_the_ends_of_the_ranges_are_inside(kind, low, high):
    assert fit("n", kind, low) == low and fit("n", kind, high) == high
    for n in (low - 1, high + 1):
        with pytest.raises(goccl.InvalidArgument):
            fit("n", kind, n)


def _structures():
    """Every structure that a module of the package defines."""
    for module in pkgutil.walk_packages(goccl.__path__, "goccl."):
        if not re.search(r"\.(torch|vllm|lib|npkit|__main__)\b|autoload", module.name):
            importlib.import_module(module.name)
    todo, found = [ctypes.Structure], []
    while todo:
        for c in todo.pop().__subclasses__():
            todo.append(c)
            if c.__module__.startswith("goccl.") and c.__dict__.get("_fields_"):
                found.append(c)
    return found


def test_every_field_refuses_what_it_cannot_hold():
    structures = _structures()
    assert len(structures) > 15
    tried = 0
    for s in structures:
        assert issubclass(s, Structure), f"{s}: derive it from goccl._checked.Structure"
        for name, kind in s._fields_:
            ends = bounds(kind)
            if ends is None:
                continue
            for n in (2**32 + 5, -1, 2**63, 2**64):
                if ends[0] <= n <= ends[1]:
                    s(**{name: n})
                    continue
                tried += 1
                with pytest.raises(goccl.InvalidArgument, match=f"{name}: {n} is out of range"):
                    s(**{name: n})
                with pytest.raises(goccl.InvalidArgument, match="out of range"):
                    setattr(s(), name, n)
    assert tried > 100


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_call_refuses_what_it_cannot_hold(name):
    """The call is refused before it is made: the functions of the library would read what the zeros point to."""
    f = lib.raw(name)
    inputs = SIGNATURES[name].partition(">")[0]
    zeros = [b"" if letter == "s" else None if letter == "p" else 0 for letter in inputs]
    for i, letter in enumerate(inputs):
        ends = None if letter == "s" else bounds(_TYPES[letter])
        for n in (2**32 + 5, -1, 2**63, 2**64):
            if ends and not ends[0] <= n <= ends[1]:
                with pytest.raises(goccl.InvalidArgument, match=f"{name}: {n} is out of range"):
                    f(*zeros[:i], n, *zeros[i + 1:])


@pytest.mark.parametrize("structure", [Request, FusedRequest])
def test_packed_structures(structure):
    pack, n = packer(structure), len(structure._fields_)
    assert pack(*range(n)) == bytes(structure(*range(n)))
    for i, (name, kind) in enumerate(structure._fields_):
        for bad in (2**64, -2**63 - 1) if bounds(kind) else ():
            with pytest.raises(goccl.InvalidArgument, match=f"{name}: {bad} is out of range"):
                pack(*[0] * i, bad, *[0] * (n - i - 1))


def test_packed_structures_with_inner_ones():
    pack = packer(MoeCombineArgs)
    assert pack(*range(17)) == bytes(MoeCombineArgs(((0, 1, 2, 3), 4, 5), 6, 7, 8, 9, (10, 11), *range(12, 17)))
    for i, name, bad in ((1, "hidden", 2**32), (4, "memory", -1), (11, "bias", 2**64), (16, "stream", -1)):
        with pytest.raises(goccl.InvalidArgument, match=f"MoeCombineArgs.{name}: {bad} is out of range"):
            pack(*[0] * i, bad, *[0] * (16 - i))


CONFIGS = {"cta_policy": (-1, 4, 5, 2**32 + 5, 2**63), "min_ctas": (-1, 2**31, 2**32 + 5, 2**63),
           "max_ctas": (-1, 2**31, 2**32 + 5, 2**63)}


@pytest.mark.parametrize("field", CONFIGS)
def test_configurations(field):
    for n in CONFIGS[field]:
        with pytest.raises(goccl.InvalidArgument, match=f"{field}: {n} is out of range"):
            nccl.Communicator.init_all(1, nccl.NCCLConfig(**{field: n}))


def test_roots_and_peers():
    comm = nccl.Communicator.init_all(1)[0]
    a = np.zeros(4, np.float32)
    for n in (2**32, 2**63, -2**31 - 1):
        for call in (lambda: comm.broadcast(a, a, root=n), lambda: comm.send(a, n), lambda: comm.recv(a, n),
                     lambda: comm.reduce(a, None, root=n), lambda: comm.gather(a, None, root=n),
                     lambda: comm.scatter(None, a, root=n)):
            with pytest.raises(goccl.InvalidArgument, match=f"root: {n} is out of range"):
                call()


def test_counts_of_alltoallv():
    comm, a = nccl.Communicator.init_all(1)[0], np.zeros(4, np.float32)
    for row in range(4):
        counts = [[0], [0], [0], [0]]
        counts[row] = [2**63]
        with pytest.raises(goccl.InvalidArgument, match="is beyond|is out of range"):
            comm.alltoallv(a, a, *counts)


def test_the_shape_of_a_launch():
    kernel = object.__new__(utils.Kernel)
    kernel.name = "k"
    for grid, block in ((BIG, 1), ((1, 2**32), 1), (1, -1)):
        with pytest.raises(goccl.InvalidArgument, match="k: .* out of range"):
            kernel.launch_kernel(b"", grid, block)
