package watchdog

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/collective/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/membership"
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
