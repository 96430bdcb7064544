"""vLLM's elastic expert parallelism on goccl, with vLLM's own source in the place of vLLM: its stateless groups, its
standby groups, its manager and its experts' layer, in the order of its ElasticEPScalingExecutor."""

import contextlib
import os
import signal
import types

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import jobs  # noqa: E402
from test_vllm import HIDDEN, TOKENS, TOP, _begin, needs_source  # noqa: E402

LOCAL = 2  # physical experts of a rank


def _engine(rank, size, port, folder):
    """An engine of one GPU, as vLLM starts it with --enable-elastic-ep."""
    platform = _begin(folder, "goccl")
    from vllm.distributed import parallel_state
    from vllm.distributed.device_communicators import pynccl

    type(platform).is_cuda_alike = lambda self: False  # groups are on the device "cpu"
    parallel_state._ENABLE_CUSTOM_ALL_REDUCE = False
    pynccl.current_stream = lambda: types.SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
    torch.accelerator.device_index = lambda index: contextlib.nullcontext()
    parallel = types.SimpleNamespace(
        all2all_backend="deepep_low_latency", enable_elastic_ep=True, enable_eplb=True, use_all2all=True,
        enable_fault_tolerance=True, data_parallel_size=size, data_parallel_rank=rank, world_size=1,
        world_size_across_dp=size, nnodes=1, nnodes_within_dp=1, data_parallel_master_ip="127.0.0.1",
        _coord_store_port=port, cpu_distributed_timeout=None, engram_dp_size=1, distributed_timeout_seconds=None,
        enable_expert_parallel=True, distributed_executor_backend="mp", data_parallel_index=rank)
    layers = types.SimpleNamespace(static_forward_context={})
    config = types.SimpleNamespace(parallel_config=parallel, model_config=None, compilation_config=layers,
                                   use_cumem_cudagraph_pool=False, engram_config=None)
    vllm_config = __import__("vllm.config").config
    vllm_config.get_current_vllm_config.return_value = config
    vllm_config.get_current_vllm_config_or_none.return_value = config
    dist.init_process_group("gloo", f"file://{folder}/{rank}.{os.getpid()}", rank=0, world_size=1)
    parallel_state._init_elastic_ep_world(config, 0, "gloo", 0, 1)
    parallel_state.initialize_model_parallel(1, backend="gloo")
    return config


def _layer():
    """vLLM's layer before and after the experts of the active group, and its manager."""
    from vllm.distributed import get_ep_group
    from vllm.model_executor.layers.fused_moe.prepare_finalize.deepep_ll import DeepEPLLPrepareAndFinalize

    manager = get_ep_group().device_communicator.all2all_manager
    return manager, DeepEPLLPrepareAndFinalize(_handle(manager), TOKENS, manager.world_size)


def _handle(manager):
    n = manager.world_size
    return manager.get_handle(dict(max_num_tokens_per_dp_rank=TOKENS, token_hidden_size=HIDDEN, num_ep_ranks=n,
                                   num_global_experts=LOCAL * n, num_local_experts=LOCAL))


def _step(layer, rank, ids, experts, weights=None):
    """A dispatch, experts that multiply with their number plus 1, and a combine."""
    from vllm.model_executor.layers.fused_moe.topk_weight_and_reduce import TopKWeightAndReduceDelegate

    quant = types.SimpleNamespace(quant_dtype=None, a1_scale=None, a2_scale=None, a1_gscale=None, block_shape=None,
                                  per_act_token_quant=False, is_block_quantized=False, is_scale_swizzled=False)
    x = (torch.arange(TOKENS * HIDDEN) % 7 + rank).to(torch.bfloat16).view(TOKENS, HIDDEN)
    weights = torch.full(ids.shape, 0.5)
    rows, _, _, _, _ = layer.prepare(x, weights, ids, experts, None, False, quant)
    for e in range(LOCAL):
        rows[e] *= LOCAL * rank + e + 1
    out = torch.empty_like(x)
    layer.finalize(out, rows, weights, ids, False, TopKWeightAndReduceDelegate())
    return x, out


def _check(rank, ids, n):
    _, layer = _layer()
    x, out = _step(layer, rank, ids, LOCAL * n)
    torch.testing.assert_close(out, (x.float() * (ids + 1).sum(1, keepdim=True) / 2).to(torch.bfloat16))


def _ids(n):
    return torch.stack([torch.arange(TOKENS) % (LOCAL * n), (torch.arange(TOKENS) + 3) % (LOCAL * n)], 1)


def _prepare(size, port):
    from vllm.distributed.elastic_ep import standby_state

    standby_state.create_standby_groups(size, size, "127.0.0.1", port, True, backend="gloo")
    manager = standby_state.get_standby_ep_group().device_communicator.all2all_manager
    manager.stage_ep_size()
    return manager, _handle(manager)  # as stage_standby_moe_quant_methods takes it


def _switch():
    from vllm.distributed import parallel_state
    from vllm.distributed.elastic_ep.standby_state import pop_standby_groups

    for group in parallel_state._replace_active_groups(**pop_standby_groups()):
        group.destroy()


def _scaled(rank, n, uid, folder):
    ports = [int(uid.rpartition(":")[2])]
    store = dist.TCPStore("127.0.0.1", ports[0], None, rank == 0, wait_for_workers=False)
    coordinators = [dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False) for _ in range(3 * (rank == 0))]
    if rank == 0:
        store.set("ports", ",".join(str(s.port) for s in coordinators))
    first, up, down = map(int, store.get("ports").decode().split(","))
    if rank < 2:
        _engine(rank, 2, first, folder)
        _check(rank, _ids(2), 2)
        manager, buffer = _prepare(3, up)
        _check(rank, _ids(2), 2)  # requests are served until the switch
        _switch()
        from vllm.distributed import get_ep_group

        assert get_ep_group().device_communicator.all2all_manager is manager and buffer.group_size == 3
        manager.commit_ep_size()
    else:
        _engine(rank, 3, up, folder)
    from vllm.distributed import get_ep_group, parallel_state

    _check(rank, _ids(3), 3)
    if rank == 2:  # it leaves
        removed = parallel_state._replace_active_groups(world=None, dp=None, ep=None, eplb=None, node_count=None)
        for group in removed:
            group.destroy()
        store.get("end")
        return
    manager, _ = _prepare(2, down)
    _switch()
    manager.commit_ep_size()
    assert type(get_ep_group().device_communicator).__module__ == "goccl.vllm.communicator"
    _check(rank, _ids(2), 2)
    store.set("end", "1")
    dist.destroy_process_group()


@needs_source
def test_ranks_come_and_go_while_the_others_serve(tmp_path):
    jobs.run(3, _scaled, str(tmp_path), timeout=600)


def _lost(rank, n, uid, folder):
    port = int(uid.rpartition(":")[2])
    coordinator = dist.TCPStore("127.0.0.1", port, None, rank == 0, wait_for_workers=False)
    config = _engine(rank, n, port, folder)
    import goccl.errors

    manager, layer = _layer()
    assert manager.support_fault_tolerance and manager.query_active_mask().tolist() == [0] * n
    _check(rank, _ids(n), n)
    assert not manager.query_fault().to("cpu", non_blocking=True).item()
    # Four logical experts on six places: 0 and 1 have replicas on ranks 0 and 2, 2 and 3 are on rank 1 only.
    state = types.SimpleNamespace(
        logical_to_physical_map=torch.tensor([[4, 0, -1], [1, 5, -1], [2, -1, -1], [3, -1, -1]]),
        logical_replica_count=torch.tensor([2, 2, 1, 1]))
    moe = types.SimpleNamespace(num_local_experts=LOCAL)
    config.compilation_config.static_forward_context.update(
        attention=object(), mlp=types.SimpleNamespace(eplb_state=state, moe_config=moe))
    logical = torch.stack([torch.arange(TOKENS) % 4, (torch.arange(TOKENS) + 1) % 4], 1)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(goccl.errors.GocclError):
        while True:
            _step(layer, rank, _ids(n), LOCAL * n)
    with pytest.raises(goccl.errors.GocclError, match="rank 2"):
        manager.query_fault().to("cpu", non_blocking=True).item()
    manager.clean_buffers()
    assert manager.query_active_mask().tolist() == [0, 0, 1] and manager.query_active_mask().dtype == torch.int32
    assert not manager.query_fault().item()
    assert state.logical_to_physical_map.tolist() == [[0, 4, -1], [1, 5, -1], [2, -1, -1], [3, -1, -1]]
    assert state.logical_replica_count.tolist() == [1, 1, 1, 1]
    _check(rank, state.logical_to_physical_map[:, 0][logical], n)  # the router takes the first of one replica
    lonely = torch.full((TOKENS, TOP), 5)  # a place on the lost rank: its part is left out
    lonely[:, 0] = 1
    x, out = _step(layer, rank, lonely, LOCAL * n)
    assert torch.equal(out, x)
    del coordinator


@needs_source
def test_a_dead_rank_is_left_out_and_its_tokens_go_to_replicas(tmp_path):
    jobs.run(3, _lost, str(tmp_path), timeout=600, victim=2)
