"""``python -m goccl.torch run script.py [arguments]``: runs a program that uses NCCL on goccl's libnccl.so.2."""

import os
import sys


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] != "run":
        print("usage: python -m goccl.torch run [-m] script.py [arguments]", file=sys.stderr)
        return 2
    from . import preload_environment

    os.execve(sys.executable, [sys.executable, *sys.argv[2:]], preload_environment())
    return 1


if __name__ == "__main__":
    sys.exit(main())
