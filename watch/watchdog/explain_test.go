package watchdog

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/membership"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

// TestLateNamesTheRankThatEndedTheCommunicator: two ranks of a host wait for each other and one of them for another
// host. The wait that ends first blames the rank that a peer has reported meanwhile, not the one that waits itself.
func TestLateNamesTheRankThatEndedTheCommunicator(t *testing.T) {
	boot := bootstrap.NewLocalGroup(1)[0]
	group := membership.New(boot, membership.Config{})
	defer func() { _ = boot.Close(); group.Wait() }()
	w := New(Config{Group: group})
	w.rank = 1
	e := &fault.Error{Op: "all_reduce", Rank: 1, Peer: 0, Seq: 4, Err: fault.ErrTimeout}
	if v := w.ExplainLate(e); v != nil || e.Peer != 0 {
		t.Errorf("while the communicator works: %v, %v", e, v)
	}
	verdict := &fault.Verdict{Kind: fault.VerdictStopped, Rank: 2}
	group.Status.End(&fault.Error{Op: "communicator", Rank: 1, Peer: 2, Err: fault.ErrTimeout, Verdict: verdict})
	if v := w.ExplainLate(e); v != verdict || e.Peer != 2 || !errors.Is(e, fault.ErrTimeout) {
		t.Errorf("rank 2 has ended it: %v, %v", e, v)
	}
}

// TestVerdictBlames: the deadline of a wait has passed. The verdict that was found meanwhile says whom the error
// blames: the peer of the wait may wait for the stopped rank itself, and all survivors must leave out the same rank.
func TestVerdictBlames(t *testing.T) {
	boot := bootstrap.NewLocalGroup(1)[0]
	group := membership.New(boot, membership.Config{})
	defer func() { _ = boot.Close(); group.Wait() }()
	rec := record.Open(record.Meta{ID: 7, Size: 4}, record.Options{Entries: 16})
	defer rec.Close(false)
	w := New(Config{Group: group, Record: rec})
	w.rank = 1
	for _, c := range []struct {
		kind fault.VerdictKind
		rank int
		seq  uint64
		want int
	}{
		{fault.VerdictStopped, 3, 4, 3},
		{fault.VerdictMissing, 2, 4, 2},
		{fault.VerdictDead, 0, 4, 0},
		{fault.VerdictStopped, 1, 4, 0},  // this rank, which runs again
		{fault.VerdictMismatch, 3, 4, 0}, // no rank to leave out
		{fault.VerdictStopped, 3, 5, 0},  // on another operation
	} {
		rec.Judged(&fault.Verdict{Kind: c.kind, Rank: c.rank, Operation: "all_reduce", Number: c.seq})
		e := &fault.Error{Op: "all_reduce", Rank: 1, Peer: 0, Seq: 4, Err: fault.ErrTimeout}
		if v := w.Explain(e); e.Peer != c.want || (v != nil) != (c.seq == e.Seq) || !errors.Is(e, fault.ErrTimeout) {
			t.Errorf("%s of rank %d on #%d: %v, %v, want rank %d", c.kind, c.rank, c.seq, e, v, c.want)
		}
	}
}

// looking is an engine whose Err looks for a failure, finds one and asks for its verdict, as engine/hosts does on GPUs.
type looking struct {
	collective.Engine
	w      *Watchdog
	once   sync.Once
	failed error
}

func (l *looking) Ended() error { return l.failed }

func (l *looking) Err() error {
	l.once.Do(func() {
		e := &fault.Error{Op: "all_reduce", Peer: -1, Seq: 1, Err: fault.ErrMismatch}
		e.Verdict = l.w.ExplainLate(e)
		l.failed = e
	})
	return l.failed
}

// TestExplainWhileTheEngineLooks: the engine's Err waits for the verdict, so nothing on the way to it may call Err.
func TestExplainWhileTheEngineLooks(t *testing.T) {
	boot := bootstrap.NewLocalGroup(1)[0]
	group := membership.New(boot, membership.Config{})
	defer func() { _ = boot.Close(); group.Wait() }()
	group.Agreed(&membership.Members{Ranks: make([]membership.Process, 1)})
	rec := record.Open(record.Meta{ID: 7, Size: 1}, record.Options{Entries: 16})
	defer rec.Close(false)
	dev, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(stream.Close(), dev.Close()) }()
	rec.Enqueued(1, &collective.Request{Collective: collective.AllReduce, Count: 1, Type: datatype.Int8, Stream: stream})
	w := New(Config{Group: group, Record: rec, Device: dev})
	w.boot, w.size = boot, 1
	w.observes.Store(true)
	l := &looking{w: w}
	w.engine = l
	done := make(chan struct{})
	go func() {
		_ = l.Err()
		w.begin(func([]*judge.Report) {})
		w.long(record.Operation{}, time.Second)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("Err waits for itself")
	}
	w.Close()
	if v := fault.Of(l.failed).Verdict; v == nil || v.Kind != fault.VerdictMismatch {
		t.Errorf("the verdict is %v", v)
	}
}

// A rank waits for answers that can come, and not for stopped ranks: the error of its operation waits as long.
func TestPatience(t *testing.T) {
	for _, c := range []struct {
		states    []string
		opTimeout time.Duration
		want      time.Duration
	}{
		{[]string{"T", "t"}, time.Second, stoppedLimit},
		{[]string{"T", "Z"}, time.Second, answerLimit},
		{[]string{"T", "S"}, time.Second, answerLimit},
		{[]string{"T", ""}, 12 * time.Second, 3 * time.Second},
		{[]string{"R"}, time.Minute, mostPatience},
		{[]string{""}, 0, mostPatience},
	} {
		w, reports, open := New(Config{OpTimeout: c.opTimeout}), []*judge.Report{nil}, []int(nil)
		for i, state := range c.states {
			reports, open = append(reports, &judge.Report{State: state}), append(open, i+1)
		}
		if got := w.patience(open, reports); got != c.want {
			t.Errorf("states %q: %v, want %v", c.states, got, c.want)
		}
	}
}
