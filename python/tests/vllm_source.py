"""vLLM's own source as the stub of its interfaces. GOCCL_TEST_VLLM names a folder with its package vllm, such as an
unpacked wheel's: pip download --no-deps vllm. Neither its compiled parts nor what it requires need be there: mocks take
their places."""

import importlib.util
import os
import sys
import types
from unittest import mock

FOLDER = os.environ.get("GOCCL_TEST_VLLM", "")
MISSING = "GOCCL_TEST_VLLM names no folder with vLLM's package vllm (pip download --no-deps vllm, and unzip it)"
_MOCKED = ("vllm.config", "vllm._C", "vllm._custom_ops", "vllm._aiter_ops", "vllm.entrypoints",
           "vllm.transformers_utils", "vllm.v1", "vllm.distributed.kv_transfer", "vllm.distributed.eplb",
           "vllm.sampling_params", "vllm.model_executor.layers.attention", "vllm.model_executor.layers.quantization")
_EXPERTS = "vllm.model_executor.layers.fused_moe"
# Modules that vLLM imports to learn about the machine.
_ABSENT = ("libtpu", "amdsmi", "flashinfer", "triton", "nixl", "mori", "aiter", "deep_gemm", "goccl")


class _Mocks:
    """Stands for missing modules that vLLM imports, and not for ones that it only looks for."""

    def __init__(self, only=""):
        self.only = only

    def find_spec(self, name, path=None, target=None):
        if name.startswith(_ABSENT) or not name.startswith(self.only):
            return None
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename:
            if frame.f_code.co_filename.endswith("util.py"):
                return None
            frame = frame.f_back
        if not frame.f_globals.get("__name__", "").startswith("vllm"):
            return None
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec):
        module = mock.MagicMock(name=spec.name)
        module.__path__, module.__name__ = [], spec.name
        return module

    def exec_module(self, module):
        pass


def find():
    """Makes ``import vllm`` mean the source."""
    sys.path.insert(0, FOLDER)
    # Importing this package as a whole would bring all kernels and models.
    experts = sys.modules[_EXPERTS] = types.ModuleType(_EXPERTS)
    experts.__path__ = [os.path.join(FOLDER, *_EXPERTS.split("."))]
    sys.meta_path[:0] = [_Mocks(_MOCKED)]
    sys.meta_path.append(_Mocks())
