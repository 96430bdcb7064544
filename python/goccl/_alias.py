"""Names of other packages for this one: mscclpp for goccl, deep_ep for goccl.moe."""

import importlib
import importlib.abc
import importlib.util
import sys
from types import ModuleType
from typing import Any


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds other.x as own.x: the same module, not a copy."""

    def __init__(self, other: str, own: str) -> None:
        self.other, self.own = other, own
        self._specs: dict[str, Any] = {}

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == self.other or fullname.startswith(self.other + "."):
            return importlib.util.spec_from_loader(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        module = importlib.import_module(self.own + spec.name[len(self.other):])
        self._specs[spec.name] = (getattr(module, "__spec__", None), getattr(module, "__loader__", None),
                                  module.__name__, module.__package__, getattr(module, "__path__", None))
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Importing has written the alias's attributes into the shared module: put its own back.
        for name, (spec, loader, own, package, path) in list(self._specs.items()):
            if sys.modules.get(self.own + name[len(self.other):]) is module:
                module.__spec__, module.__loader__, module.__name__, module.__package__ = spec, loader, own, package
                if path is not None:
                    module.__path__ = path


def stand_in(other: str, own: str) -> None:
    """Makes ``import other``, and other.x, mean this package's module own, and own.x, in this process. Raises
    InvalidUsage when the other one itself is imported already."""
    from .errors import InvalidUsage

    known = sys.modules.get(other)
    if known is not None and known.__name__ != own:
        raise InvalidUsage(f"{other} is imported already, from {getattr(known, '__file__', '?')}: let {own} stand in "
                           "for it first")
    if not any(isinstance(f, _Finder) and f.other == other for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder(other, own))


def install_alias() -> None:
    """Makes ``import mscclpp``, ``mscclpp.comm``, ``mscclpp.utils``, ``mscclpp.language.…`` and ``mscclpp.ext`` mean
    goccl's modules in this process. Raises InvalidUsage when MSCCL++ itself is imported already."""
    stand_in("mscclpp", "goccl")
