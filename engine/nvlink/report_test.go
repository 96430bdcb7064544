package nvlink

import (
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/fault"
)

// A kernel's wait has timed out. Config.Explain gives the error its verdict, and may blame another rank than the one
// that the kernel has waited for. Ranks have their numbers in the whole communicator by then.
func TestReportIsExplained(t *testing.T) {
	verdict := &fault.Verdict{Kind: fault.VerdictStopped, Rank: 7}
	e := &Engine{rank: 1, names: []int{4, 5, 6, 7}, timeout: time.Second}
	e.explain = func(err *collective.Error) *fault.Verdict {
		if err.Rank != 5 || err.Peer != 4 || err.Seq != 9 {
			t.Errorf("explains %v", err)
		}
		err.Peer = 7
		return verdict
	}
	e.latest.set(9, collective.AllReduce)
	b := new(abort.Block)
	b.Report(abort.Timeout, 0)
	err := fault.Of(e.report(abort.Timeout, b))
	if err == nil || err.Peer != 7 || err.Verdict != verdict || !errors.Is(err, collective.ErrTimeout) {
		t.Errorf("%v", err)
	}
}

// A wait of a one-sided operation names the operation and its peer, without a number.
func TestReportOfOneSided(t *testing.T) {
	e := &Engine{rank: 1, names: []int{4, 5, 6}, timeout: time.Second}
	e.latest.set(9, collective.AllReduce)
	for op, want := range map[uint32]string{abort.WaitSignal: "wait signal", abort.WaitCopy: "put signal",
		abort.WaitPacket: collective.AllReduce.String()} {
		b := new(abort.Block)
		b.Report(abort.Timeout, 2)
		b.Op.Store(op)
		err := fault.Of(e.report(abort.Timeout, b))
		if err == nil || err.Op != want || err.Peer != 6 || (err.Seq == 0) != (op != abort.WaitPacket) ||
			!errors.Is(err, collective.ErrTimeout) {
			t.Errorf("%d: %v", op, err)
		}
	}
}
