"""Fused all-reduces as operators of torch."""

import os

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

import goccl  # noqa: E402
import jobs  # noqa: E402

jobs.preload("torch", "torch.distributed")


def _init(rank, n, uid):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=uid.rpartition(":")[2], RANK=str(rank), WORLD_SIZE=str(n))
    dist.init_process_group("gloo")


def _data(n, rows, hidden, dtype):
    g = torch.Generator().manual_seed(rows * hidden)
    inputs = [torch.randn(rows, hidden, generator=g).to(dtype) for _ in range(n)]
    residual, weight = (torch.randn(*s, generator=g).to(dtype) for s in ((rows, hidden), (hidden,)))
    z = sum(x.double() for x in inputs) + residual.double()
    norm = z * torch.rsqrt((z * z).mean(-1, keepdim=True) + 1e-6) * weight.double()
    return inputs, residual, weight, z, norm


def _close(got, want, dtype):
    unit = {torch.float32: 1e-5, torch.bfloat16: 4e-2, torch.float16: 6e-3}[dtype]
    torch.testing.assert_close(got.double(), want, rtol=unit, atol=unit)


def _operators(rank, n, uid):
    from goccl.torch.fusion import FusedAllReduce

    _init(rank, n, uid)
    w = FusedAllReduce(64, 512, device="cpu", name="layer")
    ops = torch.ops.goccl
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        inputs, residual, weight, z, norm = _data(n, 3, 512, dtype)
        x = inputs[rank]
        out, new = ops.fused_all_reduce(x, residual, weight, 1e-6, "layer")
        _close(out, norm, dtype)
        _close(new, z, dtype)
        a, b = x.clone(), residual.clone()
        ops.fused_all_reduce_(a, b, weight, 1e-6, "layer")
        assert torch.equal(a, out) and torch.equal(b, new)
        _close(ops.all_reduce(x, "layer"), sum(v.double() for v in inputs), dtype)
        q, scales, new = ops.fused_all_reduce_quant(x, residual, weight, 1e-6, None, torch.float8_e4m3fn, "layer")
        assert (q.double() * scales - out.double()).abs().max() <= out.double().abs().max() / 16
        q, none, _ = ops.fused_all_reduce_quant(x, residual, weight, 1e-6, torch.tensor([0.05]), torch.int8, "layer")
        assert none.numel() == 0
        assert (q.double() - (out.double() / 0.05).clamp(-128, 127)).abs().max() <= 0.51
    for op, args in ((ops.fused_all_reduce.default, (x, residual, weight, 1e-6, "layer")),
                     (ops.fused_all_reduce_.default, (x.clone(), residual.clone(), weight, 1e-6, "layer")),
                     (ops.all_reduce.default, (x, "layer"))):
        torch.library.opcheck(op, args, test_utils=("test_schema", "test_faketensor"))

    def layer(x, residual, weight):
        y, residual = ops.fused_all_reduce(x * 2, residual, weight, 1e-6, "layer")
        z = torch.empty_like(y)
        ops.all_reduce_out(y, z, "layer")
        return z + 1, residual

    want = layer(x, residual, weight)
    got = torch.compile(layer, backend="aot_eager", fullgraph=True)(x, residual, weight)  # no graph break
    assert all(torch.equal(a, b) for a, b in zip(got, want))
    with pytest.raises(goccl.errors.InvalidArgument, match="already"):
        FusedAllReduce(64, 512, device="cpu", name="layer")
    w.close()
    with pytest.raises(goccl.errors.InvalidArgument, match="no workspace"):
        ops.all_reduce(x, "layer")
    dist.destroy_process_group()


def _flashinfer(rank, n, uid):
    from goccl.torch import flashinfer as f

    _init(rank, n, uid)
    w = f.create_allreduce_fusion_workspace(backend="trtllm", world_size=n, rank=rank, max_token_num=8, hidden_dim=64)
    p, dtype = f.AllReduceFusionPattern, torch.bfloat16
    inputs, residual, weight, z, norm = _data(n, 4, 64, dtype)
    x = inputs[rank]
    assert w.is_buffer_size_sufficient(n, 4, 64, dtype)
    _close(f.allreduce_fusion(x, w, p.kAllReduce), sum(v.double() for v in inputs), dtype)
    for oneshot in (None, True, False):
        new = torch.empty_like(x)
        out = f.allreduce_fusion(x, w, p.kARResidualRMSNorm, launch_with_pdl=True, residual_in=residual,
                                 rms_gamma=weight, residual_out=new, use_oneshot=oneshot)
        _close(out, norm, dtype)
        _close(new, z, dtype)
    norm_out = torch.empty_like(x)
    q = f.allreduce_fusion(x, w, p.kARResidualRMSNormOutFP8Quant, residual_in=residual, rms_gamma=weight,
                           norm_out=norm_out, scale_factor=0.5)
    assert torch.equal(norm_out, out)
    assert torch.equal(q.float(), (out.float() * 2).to(torch.float8_e4m3fn).float())
    with pytest.raises(goccl.errors.Unsupported, match="pattern 3"):
        f.allreduce_fusion(x, w, p.kARResidualRMSNormFP4Quant, residual_in=residual, rms_gamma=weight)
    w.destroy()
    dist.destroy_process_group()


def _unregistered(rank, n, uid):
    """A group that torch.distributed does not know, as vLLM makes them for elastic expert parallelism."""
    from goccl.torch.fusion import FusedAllReduce

    store = dist.TCPStore("127.0.0.1", int(uid.rpartition(":")[2]), n, rank == 0)
    group, kind = dist.ProcessGroup(store, rank, n), dist.ProcessGroup.BackendType.GLOO
    group._set_default_backend(kind)
    group._register_backend(torch.device("cpu"), kind, dist.ProcessGroupGloo(store, rank, n))
    w = FusedAllReduce(4, 64, group=group, device="cpu", name="unregistered")
    assert (torch.ops.goccl.all_reduce(torch.full((4, 64), 1.0 + rank), "unregistered") == n * (n + 1) / 2).all()
    w.close()


def test_a_group_that_torch_does_not_know():
    jobs.run(2, _unregistered)


def test_operators():
    jobs.run(2, _operators)


def test_flashinfer():
    jobs.run(2, _flashinfer)
