package primitive

import (
	"errors"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/wait"
)

// Waits in host kernels follow the rules of kernels/include/goccl/abort.cuh: they end when the condition holds, when
// the host raises the abort word, when the spin limit passes, or when another wait of the same Context has failed
// before.

// defaultSpinLimit bounds waits without an abort block.
const defaultSpinLimit = 60 * time.Second

// waitCell waits in a kernel until cond holds. The code that makes cond true must wake c; nil: it wakes nobody, as
// writers of packets do.
func waitCell(c *wait.Cell, cond func() bool, block, detail device.Ptr, op uint32) Status {
	if cond() {
		return StatusOK
	}
	l, s := limitOf(block)
	if s != StatusOK {
		return s
	}
	var p *wait.Policy
	if c == nil {
		c, p = new(wait.Cell), new(*wait.Default())
		p.Recheck = 100 * time.Microsecond
	}
	defer enter(block)()
	return giveUp(wait.Until(c, cond, l, p), block, detail, op)
}

// enter counts a waiting host kernel, so that Context.Close does not unmap the memory that it polls.
func enter(block device.Ptr) (leave func()) {
	if block == 0 {
		return func() {}
	}
	active := &abort.At(pointer(block)).Active
	active.Add(1)
	return func() { active.Add(^uint32(0)) }
}

// limitOf reads the abort block once: the wait polls its abort word, and its spin limit becomes a deadline.
func limitOf(block device.Ptr) (wait.Limit, Status) {
	if block == 0 {
		return wait.Limit{Deadline: wait.After(defaultSpinLimit)}, StatusOK
	}
	b := abort.At(pointer(block))
	if s := Status(b.Reported.Load()); s != StatusOK {
		return wait.Limit{}, s
	}
	return wait.Limit{Deadline: wait.After(time.Duration(b.SpinLimit.Load())), Abort: &b.Abort}, StatusOK
}

// giveUp converts the result of a wait to a Status and reports a failure in the abort block.
func giveUp(err error, block, detail device.Ptr, op uint32) Status {
	if err == nil {
		return StatusOK
	}
	s := StatusTimeout
	if a, ok := errors.AsType[*wait.AbortError](err); ok {
		s = Status(a.Reason)
	}
	if block != 0 {
		b := abort.At(pointer(block))
		b.Detail.Store(uint64(detail))
		b.Peer.Store(abort.UnknownPeer)
		b.Op.Store(op)
		b.Reported.Store(uint32(s))
	}
	return s
}
