"""The library has the generated signatures and structures."""

import ctypes

from goccl import _abi
from goccl._lib import lib
from goccl.nccl._calls import request


def test_signatures():
    assert len(_abi.SIGNATURES) > 80
    for name in _abi.SIGNATURES:
        assert lib.raw(name)


def test_structures():
    assert len(request(*[0] * 18)) == 128
    sizes = {"CommConfig": 64, "CommInfo": 32, "CallConfig": 48, "FusedRequest": 128, "Flat": 64, "SignalWait": 16,
             "Trigger": 64, "UniqueId": 128, "MoeSize": 24, "MoeShape": 16, "MoeOffsets": 64, "MoeHandle": 32,
             "MoeCountArgs": 72, "MoeNotifyArgs": 64, "MoeDispatchArgs": 136, "MoeCombineArgs": 112}
    assert sizes == {name: ctypes.sizeof(getattr(_abi, name)) for name in sizes}
