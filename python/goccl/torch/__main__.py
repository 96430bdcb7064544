"""``python -m goccl.torch run script.py [arguments]``: runs a program that uses NCCL on goccl's libnccl.so.2."""

import os
import sys


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] != "run":
        wanted = sys.argv[1:2] in (["--help"], ["-h"])
        print("usage: python -m goccl.torch run [-m] script.py [arguments]", file=sys.stdout if wanted else sys.stderr)
        return 0 if wanted else 2
    from . import preload_environment

    os.execve(sys.executable, [sys.executable, *sys.argv[2:]], preload_environment())
    return 1


if __name__ == "__main__":
    sys.exit(main())
