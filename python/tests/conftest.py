"""Tests run on the host device; ranks are processes."""

import os
import sys

os.environ["GOCCL_DEVICE"] = "host"
os.environ.setdefault("GOCCL_CACHE_DIR", "off")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
_package = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
if os.environ.get("GOCCL_TEST_INSTALLED") != "1":
    sys.path.insert(0, _package)
    os.environ["PYTHONPATH"] = _package + os.pathsep + os.environ.get("PYTHONPATH", "")
