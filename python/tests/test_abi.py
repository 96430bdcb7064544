"""The signatures by which ctypes calls equal the headers' declarations."""

import os
import re

import jobs
from goccl.moe import _calls
from goccl._lib import _SIGNATURES, lib
from goccl.nccl._config import _Config
from goccl.nccl._membership import _Info
from goccl.nccl._request import request

KINDS = {"int32_t": "i", "uint32_t": "u", "int64_t": "l", "uint64_t": "Q", "goccl_device": "Q", "goccl_bootstrap": "Q",
         "goccl_comm": "Q", "goccl_object": "Q", "goccl_window": "Q", "goccl_moe": "Q", "goccl_fusion": "Q",
         "uintptr_t": "Q"}


def _declared():
    out = {}
    for name in ("goccl.h", "goccl_moe.h", "goccl_primitive.h"):
        with open(os.path.join(jobs.ROOT, "capi", name), encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        for m in re.finditer(r"^goccl_result goccl_(\w+)\(([^;]*)\);", text, re.M):
            kinds = ""
            for p in " ".join(m.group(2).split()).split(","):
                kinds += "p" if "*" in p or "[" in p else KINDS[p.replace("const ", "").split()[0]]
            out[m.group(1)] = kinds
    return out


def test_signatures():
    declared = _declared()
    assert len(declared) > 80
    for name, kinds in _SIGNATURES.items():
        assert kinds.replace("s", "p") == declared.get(name), name
        assert lib.raw(name)
    assert not set(declared) - set(_SIGNATURES), "functions that Python does not have"


def test_structures():
    import ctypes

    assert len(request(*[0] * 18)) == 128
    assert ctypes.sizeof(_Config) == 64 and ctypes.sizeof(_Info) == 32
    sizes = {_calls.Size: 24, _calls.Shape: 16, _calls.Offsets: 48, _calls.Handle: 32, _calls.Count: 72,
             _calls.Notify: 64, _calls.Dispatch: 136, _calls.Combine: 112}
    for c, size in sizes.items():
        assert ctypes.sizeof(c) == size, c
