"""Numbers that the ABI's integers cannot hold are refused; ctypes would drop their high bits."""

import pytest

import goccl
from goccl import nccl, utils
from goccl._lib import fit

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


@pytest.mark.parametrize("kind, low, high", [("i", -2**31, 2**31 - 1), ("u", 0, 2**32 - 1), ("l", -2**63, 2**63 - 1),
                                             ("Q", 0, 2**64 - 1)])
def test_the_ends_of_the_ranges_are_inside(kind, low, high):
    assert fit("n", kind, low) == low and fit("n", kind, high) == high
    for n in (low - 1, high + 1):
        with pytest.raises(goccl.InvalidArgument):
            fit("n", kind, n)


def test_the_shape_of_a_launch():
    kernel = object.__new__(utils.Kernel)
    kernel.name = "k"
    for grid, block in ((BIG, 1), ((1, 2**32), 1), (1, -1)):
        with pytest.raises(goccl.InvalidArgument, match="k: .* out of range"):
            kernel.launch_kernel(b"", grid, block)
