"""NCCLConfig, and its form in the ABI."""

import ctypes
from ctypes import c_int32
from typing import Any

from .. import errors
from .._abi import CommConfig
from .._checked import fit
from .._lib import nanoseconds


LEVELS = ("run", "batch", "placement", "reference")


class NCCLConfig:
    """The options of Communicator.init: timeouts in seconds, a name for logs, bounds of the thread blocks of a
    collective's kernel, NCCL's CTA policy (0: default, 1: efficiency, 2: zero), and the level of exact sums: "run",
    "batch", "placement" or "reference". NCCL's other fields are accepted; goccl needs no tuning by them."""

    def __init__(self, *, timeout: float | None = None, op_timeout: float | None = None, comm_name: str | None = None,
                 min_ctas: int | None = None, max_ctas: int | None = None, cta_policy: int | None = None,
                 exact: str | None = None, **others: Any) -> None:
        self.timeout, self.op_timeout, self.comm_name = timeout, op_timeout, comm_name
        self.min_ctas, self.max_ctas, self.cta_policy, self.exact = min_ctas, max_ctas, cta_policy, exact
        self.others: dict[str, Any] = others


def pointer(config: NCCLConfig | None) -> Any:
    """The ABI's configuration; None is its defaults."""
    if config is None:
        return None
    ctas = (min(fit(name, c_int32, getattr(config, name, None) or 0), 0xffff) for name in ("min_ctas", "max_ctas"))
    c = CommConfig(ctypes.sizeof(CommConfig), 0, nanoseconds(getattr(config, "timeout", None)),
                   nanoseconds(getattr(config, "op_timeout", None)),
                   (getattr(config, "comm_name", None) or "").encode() or None, 0, *ctas)
    flags = getattr(config, "cta_policy", None)
    if flags is not None:  # zero wins over efficiency
        if not 0 <= flags <= 3:
            raise errors.InvalidArgument(f"cta_policy: {flags} is out of range: want a number from 0 to 3")
        c.cta_policy = 1 + min(int(flags), 2)
    exact = getattr(config, "exact", None)
    if exact is not None:
        if exact not in LEVELS:
            raise errors.InvalidArgument(f"exact: {exact!r}: want one of {', '.join(LEVELS)}")
        c.exact = LEVELS.index(exact)
    return ctypes.byref(c)
