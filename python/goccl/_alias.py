"""The name mscclpp for this package."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

__all__ = ["install_alias"]


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds mscclpp.x as goccl.x: the same module, not a copy."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == "mscclpp" or fullname.startswith("mscclpp."):
            return importlib.util.spec_from_loader(fullname, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        module = importlib.import_module("goccl" + spec.name[len("mscclpp"):])
        self._specs[spec.name] = (getattr(module, "__spec__", None), getattr(module, "__loader__", None),
                                  module.__name__, module.__package__, getattr(module, "__path__", None))
        return module

    _specs: dict[str, Any] = {}

    def exec_module(self, module: ModuleType) -> None:
        # Importing has written the alias's attributes into the shared module: put its own back.
        for name, (spec, loader, own, package, path) in list(self._specs.items()):
            if sys.modules.get("goccl" + name[len("mscclpp"):]) is module:
                module.__spec__, module.__loader__, module.__name__, module.__package__ = spec, loader, own, package
                if path is not None:
                    module.__path__ = path


def install_alias() -> None:
    """Makes ``import mscclpp``, ``mscclpp.comm``, ``mscclpp.utils``, ``mscclpp.language.…`` and ``mscclpp.ext`` mean
    goccl's modules in this process. Raises InvalidUsage when MSCCL++ itself is imported already."""
    from .errors import InvalidUsage

    known = sys.modules.get("mscclpp")
    if known is not None and known.__name__ != "goccl":
        raise InvalidUsage(f"mscclpp is imported already, from {getattr(known, '__file__', '?')}: call install_alias "
                           "first")
    if not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
