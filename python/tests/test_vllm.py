"""vLLM's plug-in, with vLLM's own source in the place of vLLM: two ranks on the host device."""

import contextlib
import os
import types

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import entry_points  # noqa: E402
import jobs  # noqa: E402
import vllm_source  # noqa: E402

needs_source = pytest.mark.skipif(not os.path.isfile(os.path.join(vllm_source.FOLDER, "vllm", "envs.py")),
                                  reason=vllm_source.MISSING)
TOKENS, HIDDEN, EXPERTS, TOP = 8, 2048, 4, 2


def _begin(folder, plugins):
    """vLLM's platform, after it has asked the plug-ins, on a machine that has a GPU as far as it knows."""
    torch.set_num_threads(1)
    os.environ.update(VLLM_PLUGINS=plugins, VLLM_ALLREDUCE_USE_SYMM_MEM="0", VLLM_ALLREDUCE_USE_FLASHINFER="0")
    entry_points.install(folder)
    vllm_source.find()
    import vllm.platforms as platforms

    platforms.cuda_platform_plugin = lambda: "vllm.platforms.cuda.CudaPlatform"
    platforms.builtin_platform_plugins["cuda"] = platforms.cuda_platform_plugin
    platform = platforms.current_platform
    from vllm.platforms.interface import DeviceCapability

    type(platform).get_device_capability = classmethod(lambda cls, device_id=0: DeviceCapability(9, 0))
    return platform


def _off(rank, n, uid, folder):
    platform = _begin(folder, "others")
    assert type(platform).__module__ == "vllm.platforms.cuda" and "VLLM_NCCL_SO_PATH" not in os.environ
    with pytest.raises(ImportError):
        import deep_ep  # noqa: F401


def _serve(rank, n, uid, folder):
    platform = _begin(folder, "others,goccl")
    import goccl.moe
    from vllm.utils.import_utils import has_deep_ep, resolve_obj_by_qualname
    from vllm.utils.nccl import find_nccl_library

    assert type(platform).__module__ == "goccl.vllm.cuda" and platform.is_cuda() and not platform.is_out_of_tree()
    assert os.path.samefile(find_nccl_library(), os.path.join(goccl.get_lib(), "libnccl.so.2"))
    dist.init_process_group("gloo", f"tcp://{uid.partition(':')[2]}", rank=rank, world_size=n)
    _all_reduces(resolve_obj_by_qualname(platform.get_device_communicator_cls()), rank)
    import deep_ep

    assert deep_ep is goccl.moe and has_deep_ep()
    _experts(deep_ep, rank, n)
    dist.destroy_process_group()


def _all_reduces(communicator, rank):
    from vllm.distributed import parallel_state
    from vllm.distributed.device_communicators import pynccl
    from vllm.distributed.device_communicators.cuda_communicator import CudaCommunicator

    parallel_state._ENABLE_CUSTOM_ALL_REDUCE = False
    pynccl.current_stream = lambda: types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
    torch.accelerator.device_index = lambda index: contextlib.nullcontext()
    config = __import__("vllm.config").config
    config.get_current_vllm_config_or_none.return_value = None
    asked, theirs = [], CudaCommunicator.all_reduce
    CudaCommunicator.all_reduce = lambda self, x: asked.append(x.nbytes) or theirs(self, x)
    made = communicator(dist.group.WORLD, torch.device("cpu"), dist.group.WORLD, "tp:0")
    assert not made.pynccl_comm.disabled
    for elements in (1, 1000, 2 << 20, (2 << 20) + 1):
        out = made.all_reduce(torch.full((elements,), 1.5 + rank, dtype=torch.bfloat16))
        assert (out == 4).all() and out.shape == (elements,)
    assert asked == [(4 << 20) + 2]
    made.pynccl_comm.destroy()


def _experts(deep_ep, rank, n):
    """Two modes of --all2all-backend as vLLM calls them, with experts that change nothing."""
    from vllm.model_executor.layers.fused_moe.prepare_finalize import deepep_ht
    from vllm.model_executor.layers.fused_moe.prepare_finalize.deepep_ll import DeepEPLLPrepareAndFinalize
    from vllm.model_executor.layers.fused_moe.topk_weight_and_reduce import (TopKWeightAndReduceDelegate,
                                                                              TopKWeightAndReduceNoOP)

    quant = types.SimpleNamespace(quant_dtype=None, a1_scale=None, a2_scale=None, a1_gscale=None, block_shape=None,
                                  per_act_token_quant=False, is_block_quantized=False, is_scale_swizzled=False)
    x = (torch.arange(TOKENS * HIDDEN) % 7 + rank).to(torch.bfloat16).view(TOKENS, HIDDEN)
    ids = torch.stack([torch.arange(TOKENS) % EXPERTS, (torch.arange(TOKENS) + 1) % EXPERTS], 1)
    weights = torch.full((TOKENS, TOP), 0.5)
    low = deep_ep.Buffer(dist.group.WORLD, 0, deep_ep.Buffer.get_low_latency_rdma_size_hint(TOKENS, HIDDEN, n, EXPERTS),
                         low_latency_mode=True, num_qps_per_rank=EXPERTS // n, allow_nvlink_for_low_latency_mode=True,
                         allow_mnnvl=False, explicitly_destroy=True, enable_shrink=False)
    layer = DeepEPLLPrepareAndFinalize(low, TOKENS, n)
    rows, _, meta, _, _ = layer.prepare(x, weights, ids, EXPERTS, None, False, quant)
    assert rows.shape == (EXPERTS // n, n * TOKENS, HIDDEN) and meta.expert_num_tokens.tolist() == [8, 8]
    out = torch.empty_like(x)
    layer.finalize(out, rows, weights, ids, False, TopKWeightAndReduceDelegate())
    assert torch.equal(out, x)
    low.destroy()
    high = deep_ep.Buffer(dist.group.WORLD, 1 << 22, 0, low_latency_mode=False, num_qps_per_rank=1,
                          explicitly_destroy=True)
    deepep_ht.dbo_enabled = lambda: False
    deepep_ht._dbo_record_stream = lambda *tensors: None  # this and the next need CUDA
    deepep_ht.mk.ExpertTokensMetadata.make_from_list = lambda counts, device: counts
    layer = deepep_ht.DeepEPHTPrepareAndFinalize(high, n, 1, rank * EXPERTS // n)
    rows, _, _, _, _ = layer.prepare(x, weights, ids, EXPERTS, None, False, quant)
    layer.finalize(out, rows, weights, ids, False, TopKWeightAndReduceNoOP())
    assert torch.equal(out, x * (1 + (ids[:, :1] // 2 != ids[:, 1:] // 2)))
    high.destroy()


@needs_source
def test_a_vllm_that_does_not_name_goccl_stays_as_it_is(tmp_path):
    jobs.run(1, _off, str(tmp_path), timeout=300)


@needs_source
def test_vllm_on_goccl(tmp_path):
    jobs.run(2, _serve, str(tmp_path), timeout=600)
