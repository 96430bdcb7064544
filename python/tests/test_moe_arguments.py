"""What the calls of goccl.moe take and refuse, and that torch's tensors give what numpy's arrays give."""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from goccl import errors, nccl
from goccl.moe import Buffer, Config, _arrays
from goccl.moe._engine import lib

TOKENS, HIDDEN, EXPERTS, TOP, MOST = 6, 512, 8, 4, 8
KINDS = ["numpy", "torch"]


@functools.cache
def _buffer():
    return Buffer(nccl.Communicator.init_all(1)[0], num_rdma_bytes=8 << 20, low_latency_mode=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_gets_no_rows_combines_with_weights(kind):
    def rank(comm):
        c = Calls(kind, Buffer(comm, num_rdma_bytes=8 << 20))
        c.index = c.of(np.tile(np.int64([0, 1, -1, -1]), (TOKENS, 1)))  # all to rank 0
        rows, _, weights, _, handle, _ = c.dispatch()
        assert len(rows) == (0 if comm.rank else 2 * TOKENS)
        y, sums, _ = c.buffer.combine(rows, handle, topk_weights=weights)
        return bool((y == c.x).all() and (sums[:, :2] == c.weights[:, :2]).all() and (sums[:, 2:] == 0).all())

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(rank, nccl.Communicator.init_all(2))) == [True, True]


class Calls:
    """Every call with its tensors by name, which a test may replace."""

    def __init__(self, kind, buffer=None):
        self.torch = pytest.importorskip("torch") if kind == "torch" else None
        r = np.random.default_rng(5)
        x = r.standard_normal((TOKENS, HIDDEN), np.float32)
        index = np.stack([r.permutation(EXPERTS)[:TOP] for _ in range(TOKENS)]).astype(np.int64)
        index[0, 1] = -1
        self.x = self.of((x.view(np.uint32) >> 16).astype(np.uint16), "bfloat16")
        self.eight = self.of(r.integers(0, 120, (TOKENS, HIDDEN), np.uint8), "float8_e4m3fn")
        self.scales = self.of(r.random((TOKENS, HIDDEN // 128), np.float32))
        self.index, self.weights = self.of(index), self.of(r.random((TOKENS, TOP), np.float32))
        self.buffer = buffer or _buffer()

    def of(self, a, name=None):
        if self.torch is None:
            return a
        t = self.torch.from_numpy(a)
        return t.view(getattr(self.torch, name)) if name else t

    def layout(self, topk_idx=None):
        return self.buffer.get_dispatch_layout(self.index if topk_idx is None else topk_idx, EXPERTS)

    def dispatch(self, lists=True, eight=False, **replaced):
        _, _, each, inside, _ = self.layout()
        x = (replaced.pop("data", self.eight), replaced.pop("scales", self.scales)) if eight else self.x
        args = {"x": x, "num_tokens_per_expert": each, "is_token_in_rank": inside, "config": Config(16)}
        if lists:
            args.update(topk_idx=self.index, topk_weights=self.weights)
        return self.buffer.dispatch(**{**args, **replaced})

    def combine(self, **replaced):
        rows, _, weights, _, handle, _ = self.dispatch()
        args = {"x": rows, "topk_weights": weights, "bias": (self.x, self.x), **replaced}
        if "handle_memory" in args:
            handle = handle._replace(memory=args.pop("handle_memory"))
        if "bias1" in args:
            args["bias"] = (self.x, args.pop("bias1"))
        return self.buffer.combine(handle=handle, **args)

    def latency(self, **replaced):
        return self.buffer.low_latency_dispatch(**{
            "x": self.x, "topk_idx": self.index, "num_max_dispatch_tokens_per_rank": MOST, "num_experts": EXPERTS,
            "use_fp8": False, **replaced})

    def latency_combine(self, **replaced):
        rows, _, handle, _, _ = self.latency()
        if "handle_memory" in replaced:
            handle = handle._replace(memory=replaced.pop("handle_memory"))
        return self.buffer.low_latency_combine(**{
            "x": rows, "topk_idx": self.index, "topk_weights": self.weights, "handle": handle, **replaced})


# call, argument, the argument's name in errors, and the tensor that is right, of Calls
PLACES = [
    ("layout", "topk_idx", "topk_idx", lambda c: c.index),
    ("dispatch", "x", "x", lambda c: c.x),
    ("dispatch", "topk_idx", "topk_idx", lambda c: c.index),
    ("dispatch", "topk_weights", "topk_weights", lambda c: c.weights),
    ("dispatch8", "data", "x", lambda c: c.eight),
    ("dispatch8", "scales", "the scales", lambda c: c.scales),
    ("plain", "is_token_in_rank", "is_token_in_rank", lambda c: c.layout()[3]),
    ("plain", "num_tokens_per_expert", "num_tokens_per_expert", lambda c: c.layout()[2]),
    ("combine", "x", "x", lambda c: c.dispatch()[0]),
    ("combine", "topk_weights", "topk_weights", lambda c: c.dispatch()[2]),
    ("combine", "bias", "bias", lambda c: c.x),
    ("combine", "bias1", "bias", lambda c: c.x),
    ("combine", "handle_memory", "", lambda c: c.dispatch()[4].memory),
    ("latency", "x", "x", lambda c: c.x),
    ("latency", "topk_idx", "topk_idx", lambda c: c.index),
    ("latency_combine", "x", "x", lambda c: c.latency()[0]),
    ("latency_combine", "topk_idx", "topk_idx", lambda c: c.index),
    ("latency_combine", "topk_weights", "topk_weights", lambda c: c.weights),
    ("latency_combine", "out", "out", lambda c: c.x),
    ("latency_combine", "handle_memory", "", lambda c: c.latency()[2].memory),
]
# arguments whose shape is the one that others must have, and the handle's memory, which has any
SHAPING = {("layout", "topk_idx"), ("dispatch", "x"), ("dispatch8", "data"), ("plain", "num_tokens_per_expert"),
           ("latency", "x"), ("combine", "handle_memory"), ("latency_combine", "handle_memory")}
COPIED = ("strides", "sparse", "opaque")  # dispatch makes the scales contiguous
# how a tensor is spoiled, and the text of the error, with {} for the argument's name
DEFECTS = {
    "type": (lambda c, t: t.to(c.torch.float64) if c.torch else t.astype(np.float64), "^{} holds .*float64"),
    "shape": (lambda c, t: t[:-1], "^{} has the shape"),
    "strides": (lambda c, t: (c.torch or np).stack([t, t], -1)[..., 0], "not (C-)?contiguous"),
    "device": (lambda c, t: t.to("meta"), "a tensor on meta"),
    "negated": (lambda c, t: c.torch._neg_view(t), "conjugated or negated"),
    "conjugated": (lambda c, t: t.to(c.torch.complex64).conj(), "^{} holds .*complex64"),
    "sparse": (lambda c, t: t.to_sparse(), "layout is torch.sparse_coo"),
    "opaque": (lambda c, t: t.to_mkldnn(), "layout is torch._mkldnn"),
}


def _call(calls, call, **replaced):
    kind = {"dispatch8": ("dispatch", {"eight": True}), "plain": ("dispatch", {"lists": False})}
    name, more = kind.get(call, (call, {}))
    return getattr(calls, name)(**more, **replaced)


@pytest.mark.parametrize("defect", DEFECTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_tensor_is_refused(kind, defect):
    calls = Calls(kind)
    if kind == "numpy" and defect not in ("type", "shape", "strides"):
        return
    (spoil, message), refused = DEFECTS[defect], []
    for call, argument, name, right in PLACES:
        if (call, argument) in SHAPING and defect == "shape" or argument == "scales" and defect in COPIED:
            continue  # dispatch makes the scales contiguous
        t = right(calls)
        _call(calls, call, **{argument: t})
        try:
            bad = spoil(calls, t)
        except RuntimeError:  # torch has no such tensors of this type
            continue
        with pytest.raises(errors.InvalidArgument, match=message.format(name)):
            _call(calls, call, **{argument: bad})
        refused.append(argument)
    assert "topk_weights" in refused


def _bits(a):
    """The bytes of results, without events and functions."""
    if isinstance(a, (tuple, list)):
        return [b for i in a for b in _bits(i)]
    if hasattr(a, "data_ptr"):
        import torch

        a = a.view(torch.uint8) if a.dtype.itemsize == 1 else a.view(getattr(torch, f"int{a.dtype.itemsize * 8}"))
        a = a.numpy()
    return [a.tobytes()] if isinstance(a, np.ndarray) else [a] if isinstance(a, int) else []


def _latency_results(calls):
    """low_latency_dispatch leaves the rows behind the last of an expert as they are: only the others are compared."""
    out = []
    for more in ({}, {"use_fp8": True}, {"use_fp8": True, "round_scale": True, "use_ue8m0": True}):
        rows, count, handle, _, _ = calls.latency(**more)
        out.append((count, handle.layout_range, handle[2:5]))
        for t in (*(rows if more else (rows,)), handle.src_info):
            out.extend(t[e, :count[e]] for e in range(EXPERTS))
    return [*out, calls.latency_combine()]


def test_tensors_of_torch_give_what_arrays_of_numpy_give():
    kinds = [Calls(k) for k in KINDS]
    for results in (lambda c: c.layout(), lambda c: c.dispatch()[:5], lambda c: c.dispatch(lists=False)[:5],
                    lambda c: c.dispatch(eight=True)[:5], lambda c: c.dispatch(expert_alignment=4)[3],
                    lambda c: c.buffer.dispatch(c.x, handle=c.dispatch()[4]), lambda c: c.combine(), _latency_results):
        want, got = [_bits(_without_memory(results(c))) for c in kinds]
        assert want and want == got


def _without_memory(results):
    """Results whose handles have no memory, of which parts are unused."""
    if isinstance(results, (tuple, list)):
        return [_without_memory(r._replace(memory=None) if hasattr(r, "memory") else r) for r in results]
    return results


def test_a_call_takes_the_short_way(monkeypatch):
    """Tensors of torch that are right are not looked at twice, and a shape's layout is asked for once."""
    calls, asked, layout = Calls("torch"), [], lib.moe_layout

    def refuse(t):
        raise AssertionError("a tensor goes the long way")

    monkeypatch.setattr(_arrays, "resolve", refuse)
    monkeypatch.setattr(lib, "moe_layout", lambda *a: (asked.append(a), layout(*a)))
    calls.buffer._engine._offsets.clear()
    for _ in range(3):
        calls.combine(), calls.latency_combine(), calls.dispatch(eight=True), calls.dispatch(num_worst_tokens=TOKENS)
    assert len(asked) == 2


def test_tensors_of_both_kinds_on_the_host():
    """numpy's lists go with torch's tokens; an empty tensor has no address."""
    calls, plain = Calls("torch"), Calls("numpy")
    want, got = [calls.latency(topk_idx=c.index)[1].tolist() for c in (calls, plain)]
    assert want == got
    a = _arrays.Arrays(calls.x)
    assert a.address(calls.x[2:2], "x", (0, HIDDEN), "bfloat16") == 0 == a.pointer(calls.x[2:2])
