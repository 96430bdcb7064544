package watchdog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/membership"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

// Explain returns the verdict on an operation that fails with err, nil if there is none. The engine calls it. It does
// not wait: the verdict on an operation whose deadline has passed was found at half of that time. That verdict says
// whom err blames.
func (w *Watchdog) Explain(err *fault.Error) *fault.Verdict {
	switch {
	case errors.Is(err.Err, fault.ErrPeerDead) && err.Peer >= 0:
		return w.Group.Dead(err.Peer)
	case errors.Is(err.Err, fault.ErrTimeout):
		v := w.Record.VerdictOn(isMessage(err), err.Seq)
		w.blame(err, v)
		return v
	case errors.Is(err.Err, fault.ErrMismatch):
		return w.mismatch(err)
	}
	return nil
}

// isMessage reports whether err is of a send or receive. These have numbers apart from the numbers of collectives.
func isMessage(err *fault.Error) bool {
	return err.Op == collective.Send.String() || err.Op == collective.Recv.String()
}

// ExplainLate is Explain across hosts, where a rank that another one waits for may wait itself, with the same deadline.
// If the ranks have found that a third one is dead or stopped, or has not called the operation, err blames it instead,
// and also if the communicator ends meanwhile because of a third one.
func (w *Watchdog) ExplainLate(err *fault.Error) *fault.Verdict {
	v := w.Explain(err)
	if !errors.Is(err.Err, fault.ErrTimeout) {
		return v
	}
	if v == nil {
		v = w.late(err)
	}
	if end := fault.Of(w.Group.Status.Err()); v == nil && end != nil && end.Peer >= 0 && end.Peer != w.rank {
		err.Err, err.Peer = end.Err, end.Peer
		return end.Verdict
	}
	w.blame(err, v)
	return v
}

// blame makes err, of a wait that has timed out, blame the rank that v does, if that rank is another one: the peer that
// an engine has waited for may wait itself, and survivors must agree on whom to leave out.
func (w *Watchdog) blame(err *fault.Error, v *fault.Verdict) {
	if v == nil || v.Rank == w.rank || slices.Contains(v.Blamed(), err.Peer) {
		return
	}
	switch v.Kind {
	case fault.VerdictDead, fault.VerdictStopped, fault.VerdictMissing:
		err.Err, err.Peer = fmt.Errorf("%w; the ranks wait for rank %d", err.Err, v.Rank), v.Rank
	}
}

const noGoodbye = "its connection has ended without a goodbye"

// Verdict implements membership.Config.Verdict.
func Verdict(dead bool, me, rank int, at membership.Process) (v *fault.Verdict) {
	r := &judge.Report{Rank: rank, Host: at.Host, PID: at.PID}
	if dead {
		r.Dead = noGoodbye
		v = judge.Died(r, []int{rank})
	} else {
		r.State = "T"
		reports := make([]*judge.Report, max(me, rank)+1)
		reports[rank] = r
		v = judge.Judge(&judge.Question{Me: me, Reports: reports})
	}
	v.By, v.Found = me, record.Now()
	return v
}
