"""What the calls of torch's process group take and refuse: the short way of tensors of which only addresses are needed
gives what the long way gives. And the order of streams and events on a GPU, whose runtime is imitated."""

import ctypes
import operator
import struct
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

from goccl import _abi, nccl  # noqa: E402
from goccl._buffer import plain  # noqa: E402
from goccl.nccl import _calls, _communicator, _group  # noqa: E402
from goccl.torch import _tensors, backend, device_queue  # noqa: E402
from goccl.torch.device_queue import DeviceQueue  # noqa: E402

N = 2  # ranks, of which rank 0 is here and nothing goes to the other
FIELDS = [name for name, _ in _abi.Request._fields_]
LISTS = ("send_counts", "send_displs", "recv_counts", "recv_displs")


@pytest.fixture
def group(monkeypatch):
    g = backend.ProcessGroupGoccl(dist.HashStore(), 0, N)
    comm = nccl.Communicator.init_all(1)[0]
    comm._size, comm.requests, comm.names = N, [], {}
    size = ctypes.sizeof(_abi.Request)

    def submit(raw, n):
        comm.requests.extend(_read(raw[i * size:(i + 1) * size], comm) for i in range(n))
        return 0

    comm._submit = submit
    monkeypatch.setattr(_group, "lib", SimpleNamespace(raw=lambda name: {"submit": submit}[name]))
    g._queues[torch.device("cpu")] = DeviceQueue(comm, torch.device("cpu"))
    g.comm = comm
    yield g
    g.shutdown()


def _read(raw, comm):
    """The fields of a request: tensors by their names, the lists of an all-to-all-v by their entries."""
    fields = dict(zip(FIELDS, struct.unpack("@QIIIiQQQNQQQQQQQQQ", raw)))
    fields["stream"] = bool(fields["stream"])
    for name in ("send", "recv"):
        fields[name] = comm.names.get(fields[name], "a copy") if fields[name] else None
    if fields["send_counts"]:
        fields.update((name, tuple((ctypes.c_int64 * N).from_address(fields[name]))) for name in LISTS)
    return fields


def _options(**more):
    return SimpleNamespace(**more)


# Each with two tensors, x and y.
CALLS = {
    "all_reduce": lambda g, x, y: g.allreduce([x]),
    "reduce to rank 0": lambda g, x, y: g.reduce([x], _options(rootRank=0)),
    "reduce to rank 1": lambda g, x, y: g.reduce([x], _options(rootRank=1)),
    "broadcast from rank 0": lambda g, x, y: g.broadcast([x], _options(rootRank=0)),
    "broadcast from rank 1": lambda g, x, y: g.broadcast([x], _options(rootRank=1)),
    "all_gather": lambda g, x, y: g._allgather_base(torch.cat([y, y]), x),
    "all_gather into x": lambda g, x, y: g._allgather_base(x, y[:y.shape[0] // N] if y.dim() else y),
    "reduce_scatter": lambda g, x, y: g._reduce_scatter_base(y[:y.shape[0] // N] if y.dim() else y, x),
    "reduce_scatter into x": lambda g, x, y: g._reduce_scatter_base(x, torch.cat([y, y])),
    "all_to_all": lambda g, x, y: g.alltoall_base(y, x),
    "all_to_all into x": lambda g, x, y: g.alltoall_base(x, y),
    "all_to_all_v": lambda g, x, y: g.alltoall_base(y, x, [1, 3], [4, 0]),
    "all_to_all_v into x": lambda g, x, y: g.alltoall_base(x, y, [3, 1], [2, 2]),
    "all_to_all_v, one list": lambda g, x, y: g.alltoall_base(y, x, [], [1, 3]),
    "send": lambda g, x, y: g.send([x], 1),
    "recv": lambda g, x, y: g.recv([x], 1),
}
TYPES = sorted((d for d in vars(torch).values() if isinstance(d, torch.dtype)), key=str)
# How x is changed, or both are.
FORMS = {
    "plain": lambda t: t,
    "a slice": lambda t: torch.cat([t, t])[2:2 + t.shape[0]],
    "strided": lambda t: torch.stack([t, t], -1)[..., 0],
    "transposed": lambda t: t.clone().t().contiguous().t(),
    "expanded": lambda t: t[:1].expand(*t.shape),
    "negated": torch._neg_view,
    "conjugated": lambda t: t.to(torch.complex64).conj(),
    "sparse": lambda t: t.to_sparse(),
    "opaque": lambda t: t.to_mkldnn(),
    "on meta": lambda t: t.to("meta"),
    "shorter": lambda t: t[:-1],
    "longer": lambda t: torch.cat([t, t[:1]]),
    "empty": lambda t: t[:0],
    "of no dimension": lambda t: t.sum(),
    "a parameter": lambda t: torch.nn.Parameter(t, requires_grad=False),
    **{str(d): lambda t, d=d: torch.empty(t.shape, dtype=d) for d in TYPES},
}


def _outcome(group, call, x, y):
    """The requests and the results of a call, or its error."""
    comm = group.comm
    comm.requests.clear()
    comm.names = {t.data_ptr(): name for name, t in (("x", x), ("y", y)) if t.layout is torch.strided and t.numel()}
    try:
        work = call(group, x, y)
        work.wait()
    except Exception as e:  # of torch or of goccl
        group._queues[torch.device("cpu")].drop()
        return type(e), str(e).partition("[[")[0]  # without numbers that the other rank has not sent
    return list(comm.requests), [("x" if t is x else "y" if t is y else "a view") for t in work.result()]


@contextmanager
def _long_way():
    """Communicator looks at all tensors."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr(_calls, "plain", lambda *a: None)
        m.setattr(_tensors, "plain", lambda *a: None)
        yield


@pytest.mark.parametrize("both", [False, True], ids=["one", "both"])
@pytest.mark.parametrize("name", CALLS)
def test_the_short_way_gives_what_the_long_one_gives(group, name, both):
    requests = errors = 0
    for form, change in FORMS.items():
        x, y = torch.arange(8.0).view(4, 2), torch.arange(8.0).view(4, 2) + 8
        try:
            x, y = change(x), change(y) if both else y
        except (RuntimeError, TypeError):  # torch has no such tensors
            continue
        short = _outcome(group, CALLS[name], x, y)
        with _long_way():
            long = _outcome(group, CALLS[name], x, y)
        assert short == long, form
        requests += isinstance(short[0], list) and len(short[0])
        errors += not isinstance(short[0], list)
    assert requests > 5 and errors > 3


def test_operators(group):
    kinds = [k for k in (getattr(dist.ReduceOp, n) for n in ("SUM", "PRODUCT", "MAX", "MIN", "AVG", "BAND", "BXOR"))]
    scaled = [dist._make_nccl_premul_sum(0.5)] if hasattr(dist, "_make_nccl_premul_sum") else []
    ops, numbers = [*kinds, *map(dist.ReduceOp, kinds), *scaled, "plus", 0], set()
    for dtype in (torch.float32, torch.int64, torch.bool, torch.int16, torch.complex64):
        for op in ops:
            o = _options(reduceOp=op)
            for call in (lambda g, x, y: g.allreduce([x], o), lambda g, x, y: g._reduce_scatter_base(y[:1], x),
                         lambda g, x, y: g._reduce_scatter_base(y[:1], x, o)):
                x, y = torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype)
                short = _outcome(group, call, x, y)
                with _long_way(), pytest.MonkeyPatch.context() as m:
                    m.setattr(_tensors, "_HASHES", {})
                    long = _outcome(group, call, x, y)
                if op in scaled and isinstance(short[0], list):  # each has a new number
                    short, long = ([r | {"op": 0} for r in way[0]] for way in (short, long))
                assert short == long, (dtype, op)
                numbers |= {r["op"] for r in short[0]} if isinstance(short[0], list) else set()
    assert set(range(5)) <= numbers


@pytest.mark.parametrize("name", CALLS)
def test_plain_tensors_take_the_short_way(group, name, monkeypatch):
    def refuse(t):
        raise AssertionError("a tensor goes the long way")

    for module in (_calls, _communicator):
        monkeypatch.setattr(module, "resolve", refuse)
    requests, _ = _outcome(group, CALLS[name], torch.ones(4, 2), torch.ones(4, 2))
    assert len(requests) == 1


def test_numbers_that_do_not_fit(group):
    """Whatever the callers have checked."""
    x, y = torch.ones(7), torch.ones(3)
    assert plain(x, y) == 7 == plain(x, None) and plain(x, y.double()) is None is plain(x, y.numpy())
    group.comm.reduce_scatter(x[:6], y)
    with pytest.raises(ValueError, match="recvbuf has 3 elements, 14 are needed"):
        group.comm.allgather(x, y)
    group.comm.reduce_scatter(x, y)  # one element more than needed
    assert [r["count"] for r in group.comm.requests] == [3, 3]
    with pytest.raises(ValueError, match="no multiple"):
        group.comm.alltoall(x, x.clone())
    for call in ("allreduce", "allgather", "reduce_scatter", "alltoall", "gather"):
        with pytest.raises(ValueError, match="NoneType is no buffer"):
            getattr(group.comm, call)(None, x)


def test_lists_of_an_all_to_all_v_are_kept_by_an_open_group(group):
    x, y = torch.ones(4, 2), torch.ones(4, 2)
    with nccl.group():
        group.alltoall_base(y, x, [1, 3], [4, 0])
        (raw,) = _group.current.requests
        torch.zeros(1 << 16).tolist()  # takes memory that is free
        fields = _read(raw, group.comm)
        assert [fields[n] for n in LISTS] == [(8, 0), (0, 8), (2, 6), (0, 2)]
        _group.current.requests.clear()


def test_what_a_failed_call_takes_along_fails(group):
    works = group.send([torch.ones(3)], 1), group.recv([torch.ones(3)], N + 1)
    group.comm.recv = lambda *args, **kwargs: operator.index("none")
    for w in works:
        with pytest.raises(TypeError):
            w.wait()
    assert not works[0].is_success() and not group._queues[torch.device("cpu")]._pending


def test_a_failure_is_told(group):
    failed = []
    group._queues[torch.device("cpu")].failed = lambda: failed.append(1)
    group.comm._submit = lambda raw, n: _calls.lib.raw("comm_info_get")(1 << 60, None)
    with pytest.raises(Exception, match="comm"):
        group.allreduce([torch.ones(3)])
    group.comm._submit = lambda raw, n: 6
    from goccl import errors

    monkey = pytest.MonkeyPatch()
    monkey.setattr(_calls, "error", lambda r: errors.PeerDead("peer 1 is dead"))
    with monkey.context(), pytest.raises(errors.PeerDead):
        group.allreduce([torch.ones(3)])
    monkey.undo()
    assert failed == [1]


# Streams and events.

class _Tensor:
    def __init__(self, log, name):
        self.log, self.name, self.is_cuda = log, name, True

    def record_stream(self, stream):
        self.log.append(("keeps", self.name, stream.cuda_stream))


@pytest.fixture
def gpu(monkeypatch):
    """A queue on a GPU, and a log of its streams and events."""
    log, state = [], SimpleNamespace(current=5, made=0, events=0)

    class Stream:
        def __init__(self, index, raw=7):
            self.cuda_stream = raw

        def record_event(self):
            event = Event()
            event.record(self)
            return event

        def wait_event(self, event):
            event.wait(self)

    class Event:
        def __init__(self):
            state.events += 1
            self.number, self.at = state.events, None

        def record(self, stream):
            self.at = stream.cuda_stream
            log.append(("record", self.number, stream.cuda_stream))

        def wait(self, stream):
            log.append(("wait", self.number, stream.cuda_stream))

        def query(self):
            return True

    def current_stream(index):
        state.made += 1
        return Stream(index, state.current)

    @contextmanager
    def stream(s):
        log.append(("enter", s.cuda_stream))
        yield
        log.append(("leave", s.cuda_stream))

    for name, value in (("Stream", Stream), ("Event", Event), ("current_stream", current_stream), ("stream", stream)):
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(device_queue, "raw_stream", lambda index: state.current)
    comm = SimpleNamespace(device=SimpleNamespace(id=0), error=None, get_async_error=lambda: comm.error)
    queue = DeviceQueue(comm, torch.device("cuda", 0))
    log.clear()
    return SimpleNamespace(queue=queue, log=log, state=state, comm=comm,
                           tensor=lambda name: _Tensor(log, name),
                           call=lambda c, s: log.append(("call", getattr(s, "cuda_stream", s))))


def test_a_call_that_is_waited_for_at_once_runs_on_the_callers_stream(gpu):
    result = [object()]
    work = gpu.queue.submit(gpu.call, (gpu.tensor("x"), None), result, False, lambda: gpu.log.append("finish"))
    assert gpu.log == [("call", 5), "finish"]
    gpu.comm.error = RuntimeError("later")
    assert work.wait() and work.is_completed() and work.is_success() and work.result() == result
    assert len(gpu.log) == 2 and gpu.state.made == 0


def test_a_call_runs_beside_the_callers_stream(gpu):
    x = gpu.tensor("x")
    for turn in range(2):
        gpu.log.clear()
        work = gpu.queue.submit(gpu.call, (x, gpu.tensor("y"), x, None), [])
        end = gpu.state.events
        assert gpu.log == [("record", 1, 5), ("wait", 1, 7), ("call", 7), ("record", end, 7), ("keeps", "x", 7),
                           ("keeps", "y", 7)]
        assert end == 2 + turn  # one for each work, so that later work is not waited for
        assert work._tensors is None
    gpu.log.clear()
    gpu.state.current = 9  # another stream waits
    assert work.wait() and gpu.log == [("wait", end, 9)]
    assert gpu.state.made == 2  # once for each stream


def test_what_is_staged_is_copied_on_the_queues_stream(gpu):
    gpu.queue.submit(gpu.call, (), [], True, lambda: gpu.log.append("finish"))
    assert gpu.log[2:6] == [("call", 7), ("enter", 7), "finish", ("leave", 7)]


def test_a_wait_raises_what_the_communicator_failed_with(gpu):
    work = gpu.queue.submit(gpu.call, (), [])
    gpu.comm.error = ValueError("gone")
    with pytest.raises(ValueError, match="gone"):
        work.wait()


def test_sends_and_receives_wait_for_the_stream_of_their_call(gpu):
    first = gpu.queue.later(gpu.call, (gpu.tensor("x"),), [])
    gpu.state.current = 9
    second = gpu.queue.later(gpu.call, (gpu.tensor("y"),), [])
    assert gpu.log == [("record", 2, 5), ("record", 3, 9)]
    gpu.log.clear()
    assert first.wait()
    assert gpu.log == [("wait", 2, 7), ("call", 7), ("wait", 3, 7), ("call", 7), ("record", 4, 7), ("keeps", "x", 7),
                       ("keeps", "y", 7), ("wait", 4, 9)]
    assert second.wait() and gpu.log[-1] == ("wait", 4, 9) and second._tensors is None


def test_the_last_of_several_ends_with_the_others(gpu):
    host = SimpleNamespace(cuda=False)
    waited = []
    other = device_queue.Work(host, (), [])
    other._wait = waited.append
    last = device_queue.Work.last([other, gpu.queue.submit(gpu.call, (), [], False)], [])
    assert last.wait() and waited == [None]
