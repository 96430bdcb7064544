"""The arguments of the functions in goccl_moe.h, and its constants."""

import ctypes

from .._abi import MoeCombineArgs, MoeCountArgs, MoeDispatchArgs, MoeNotifyArgs, MoeShape
from .._checked import packer
from .._lib import lib

# Bytes of the arguments. The first six are the handle: layout, hidden, top-k, experts, memory and tokens.
combine, count = packer(MoeCombineArgs), packer(MoeCountArgs)
dispatch, notify = packer(MoeDispatchArgs), packer(MoeNotifyArgs)

QUANTIZE, POWER_OF_TWO, LISTS = 1, 2, 4
ROWS, EXPERTS, ZERO_COPY = 0, 1, 2
BFLOAT16, FLOAT8 = 9, 10


def bytes_for(ranks: int, tokens: int, hidden: int, top_k: int, experts: int) -> int:
    """The bytes of a buffer for tokens of a shape."""
    return int(lib.moe_bytes(ranks, tokens, ctypes.byref(MoeShape(ROWS, hidden, top_k, experts))))
