"""``python -m goccl …``: the goccl program (perf, doctor, topo, run, …), and ``python -m goccl install-alias``."""

import os
import shutil
import sys

from ._lib import directory

_ALIAS = '''"""goccl under the name mscclpp."""
import sys
del sys.modules[__name__]
import goccl
goccl.install_alias()
import mscclpp  # noqa: F401
'''


def _program() -> str | None:
    folder = directory()
    if folder and os.access(os.path.join(folder, "goccl"), os.X_OK):
        return os.path.join(folder, "goccl")
    found = shutil.which("goccl")
    # The wheel's own script of that name would call us again.
    if found:
        with open(found, "rb") as f:
            if f.read(4) == b"\x7fELF":
                return found
    return None


def _install_alias(arguments: list[str]) -> int:
    """Writes a package mscclpp beside goccl, for programs that import nothing else. An MSCCL++ that is there already
    stays."""
    if arguments:
        wanted = arguments in (["--help"], ["-h"])
        print("usage: python -m goccl install-alias\n\nWrites a package mscclpp beside goccl, for programs that import "
              "mscclpp.\nIt takes no arguments.", file=sys.stdout if wanted else sys.stderr)
        return 0 if wanted else 2
    target = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mscclpp")
    if os.path.exists(target):
        print(f"{target} exists: remove it, or call goccl.install_alias() in the program", file=sys.stderr)
        return 1
    os.makedirs(target)
    with open(os.path.join(target, "__init__.py"), "w", encoding="utf-8") as f:
        f.write(_ALIAS)
    print(f"wrote {target}")
    return 0


def main() -> int:
    if sys.argv[1:2] == ["install-alias"]:
        return _install_alias(sys.argv[2:])
    program = _program()
    if program is None:
        print("the goccl program is not installed: `pip install goccl-tool` brings it; in a checkout `pip install "
              "./python` builds it", file=sys.stderr)
        return 127
    folder = directory()
    if folder:
        os.environ.setdefault("GOCCL_LIBRARY", os.path.join(folder, "libgoccl.so"))
    os.execv(program, [program, *sys.argv[1:]])
    return 1


if __name__ == "__main__":
    sys.exit(main())
