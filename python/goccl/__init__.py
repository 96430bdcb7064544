"""goccl: GPU communication primitives and collectives, on GPUs or on the host.

Importing opens nothing and starts no thread; the library is loaded by the first call. Submodules: ``goccl.nccl``
(nccl4py's API), ``goccl.torch`` (torch.distributed backend), ``goccl.language`` (collectives written in Python),
``goccl.utils`` (users' kernels), ``goccl.ext`` (algorithms), ``goccl.moe`` (DeepEP's API).
"""

import importlib
import os

TYPE_CHECKING = False  # typing's, without the 15 ms that importing it takes
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"
version = {"version": __version__}

_here = os.path.dirname(os.path.abspath(__file__))


def _exports() -> dict[str, str]:
    """The package's names and their modules, as __init__.pyi lists them in lines of the form ``from .module import name
    as name``."""
    with open(os.path.join(_here, "__init__.pyi"), encoding="utf-8") as f:
        lines = (line.split() for line in f)
        return {words[-1]: words[1] for words in lines if words[:1] == ["from"] and words[1].startswith(".")}


_HOME = _exports()  # a module is loaded when one of its names is first asked for
_SUBMODULES = ("nccl", "torch", "language", "utils", "ext", "comm", "errors", "bootstrap", "device", "channel", "fifo",
               "proxy", "algorithm", "native", "moe", "npkit", "numa", "records", "snapshot", "default_algos")

__all__ = sorted(_HOME) + ["get_include", "get_lib", "is_nvls_supported"]


def __getattr__(name: str) -> "Any":
    home = _HOME.get(name)
    if home is not None:
        value = getattr(importlib.import_module(home, __name__), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__) | set(_SUBMODULES))


def get_lib() -> str:
    """The folder of libgoccl.so and libnccl.so.2."""
    from ._lib import directory

    return directory() or ""


def get_include() -> str:
    """The folder of nccl.h, goccl.h and the device headers, for compilers other than the built-in one; in a checkout
    what `make libgoccl` gathers."""
    packaged = os.path.join(_here, "include")
    checkout = os.path.normpath(os.path.join(_here, "..", "..", "build", "include"))
    return packaged if os.path.isdir(packaged) else checkout


def is_nvls_supported() -> bool:
    """False: multicast is off. Switch channels are unicast: they load from and store to every peer, with the same
    API."""
    return False
