package watchdog

import (
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl/collective/fault"
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
