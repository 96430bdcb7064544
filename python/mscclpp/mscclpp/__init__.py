"""goccl under the name mscclpp: importing it, or a module of it, gives goccl's.

Installed on request (``pip install ./python/mscclpp``), for programs that must not change. It takes the place of
MSCCL++'s own package.
"""

import sys

del sys.modules[__name__]

import goccl  # noqa: E402

goccl.install_alias()

import mscclpp  # noqa: E402,F401
