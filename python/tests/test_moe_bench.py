"""What bench/moe asks of DeepEP V2 and of NCCL EP, of fakes that do it with what each rank knows of the others."""

import enum
import pathlib
import sys
import types

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "moe"))
elastic, nccl_ep, routing = (pytest.importorskip(m) for m in ("elastic", "nccl_ep", "routing"))


@pytest.fixture
def routes():
    return routing.Routing(8, 256, 2, 4, 2, 1, torch.device("cpu"))


def came(r, eight):
    """The rows of rank r.rank, against the order of the ranks, and where they are from."""
    ranks = reversed(range(r.ranks))
    pairs = [(s, t) for s in ranks for t in reversed(r.tokens_to(s, r.rank).tolist())]
    x = torch.stack([r.x[s][t] for s, t in pairs])
    sources = torch.tensor([s * r.tokens + t for s, t in pairs], dtype=torch.int32)
    return (routing.quantize(x) if eight else (x,)), sources


def sums(r):
    factors = (r.inside[r.rank].float() * torch.tensor([1.0, 2.0])).sum(1)
    return (r.x[r.rank].float() * factors[:, None]).bfloat16()


def spoil(rows, wrong):
    if wrong:
        rows[-1].view(torch.uint8)[0, -1] ^= 1
    return rows


def elastics(r, wrong):
    class ElasticBuffer:
        def __init__(self, group, **size):
            assert size["num_max_tokens_per_rank"] == 16 and size["hidden"] == 256

        def dispatch(self, x, topk_idx=None, handle=None, num_sms=0, **shape):
            rows, sources = came(r, isinstance(x, tuple))
            assert (topk_idx is None) != (handle is None) and num_sms in (16, 24)
            assert handle is not None or shape == {"num_experts": 4, "num_max_tokens_per_rank": 8}
            rows = spoil(rows, wrong == "dispatch")
            handle = handle or types.SimpleNamespace(recv_src_metadata=torch.stack([sources, -sources], 1))
            return rows if isinstance(x, tuple) else rows[0], None, None, handle, None

        def combine(self, x, handle, num_sms=0):
            return spoil((sums(r),), wrong == "combine")[0], None, None

    module = types.SimpleNamespace(ElasticBuffer=ElasticBuffer, topk_idx_t=torch.int64)
    return elastic.Elastic(module, [16, 24], 16, 256, 2)


def epis(r, wrong):
    class Handle:
        def dispatch(self, i, o, config, stream):
            eight = i.scales is not None
            assert config.quantization_recipe.name == ("FWD" if eight else "NONE")
            rows, _ = came(r, eight)
            for part, got in zip((o.tokens, o.scales), spoil(rows, wrong == "dispatch")):
                part[: len(got)] = got

        def combine(self, i, o, stream):
            o.tokens.copy_(spoil((sums(r),), wrong == "combine")[0])

        def destroy(self):
            pass

    class Group(Handle):
        def create_handle(self, layout, index, layout_info, stream):
            assert layout == 3 and index.equal(r.index)
            layout_info.recv_total_counter[0] = sum(r.counts()[1])
            return Handle()

        @staticmethod
        def create(comm, config):
            assert comm.ptr == 7 and config.max_num_sms in (16, 24) and config.max_token_bytes == 512
            return Group()

    recipes = enum.Enum("Recipe", "NONE FWD")
    bundle = types.SimpleNamespace
    module = bundle(Group=Group, GroupConfig=bundle, LayoutInfo=bundle, DispatchInputs=bundle, DispatchOutputs=bundle,
                    DispatchConfig=bundle, CombineInputs=bundle, CombineOutputs=bundle, Tensor=lambda t: t,
                    Algorithm=bundle(HIGH_THROUGHPUT=1), Layout=bundle(FLAT=3), DispatchQuantizationRecipe=recipes)
    return nccl_ep.NCCLEP(module, 7, [16, 24])


@pytest.fixture(params=[elastics, epis], ids=["deep_ep_v2", "nccl_ep"])
def library(request, monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    return request.param


def test_figures(library, routes):
    peer = library(routes, "")
    found = list(peer.measure(None, routes))
    assert [(f["sms"], f["operation"], f["type"]) for f in found] == [
        (sms, *what) for sms in (16, 24) for what in (("dispatch", "bfloat16"), ("combine", "bfloat16"),
                                                      ("dispatch", "float8"))]
    assert {f["rows"] for f in found} == {sum(routes.counts()[1])}
    for f in found:
        f["call"]()
    if library is epis:
        peer.destroy()


@pytest.mark.parametrize("wrong", ["dispatch", "combine"])
def test_wrong_results_are_refused(library, routes, wrong):
    with pytest.raises(AssertionError, match="elements" if wrong == "dispatch" else "sums"):
        list(library(routes, wrong).measure(None, routes))
