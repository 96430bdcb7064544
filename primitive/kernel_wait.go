package primitive

import (
	"errors"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
)

// Waits in host kernels, by the rules of kernels/include/goccl/abort.cuh: they end when the condition holds, when the host raises the abort
// word, when the spin limit passes, or when some other wait of the same Context has given up before.

// defaultSpinLimit bounds waits that were given no abort block.
const defaultSpinLimit = 60 * time.Second

// waitCell waits in a kernel until cond holds. Whoever makes it true wakes c.
func waitCell(c *wait.Cell, cond func() bool, abort device.Ptr, detail device.Ptr, op uint32) Status {
	if cond() {
		return StatusOK
	}
	l, s := limitOf(abort)
	if s != StatusOK {
		return s
	}
	defer enter(abort)()
	return giveUp(wait.Until(c, cond, l, nil), abort, detail, op)
}

// enter counts a host kernel in as long as it waits, so that Context.Close does not unmap what it polls.
func enter(abort device.Ptr) (leave func()) {
	if abort == 0 {
		return func() {}
	}
	active := word32(abort.Add(abortActive))
	active.Add(1)
	return func() { active.Add(^uint32(0)) }
}

// limitOf reads the abort block once: its word is polled by the wait, its spin limit becomes a deadline.
func limitOf(abort device.Ptr) (wait.Limit, Status) {
	if abort == 0 {
		return wait.Limit{Deadline: wait.After(defaultSpinLimit)}, StatusOK
	}
	if s := Status(word32(abort.Add(abortReported)).Load()); s != StatusOK {
		return wait.Limit{}, s
	}
	return wait.Limit{Deadline: wait.After(time.Duration(word64(abort.Add(abortSpin)).Load())), Abort: word32(abort)}, StatusOK
}

// giveUp turns the end of a wait into a Status and reports a failed one.
func giveUp(err error, abort, detail device.Ptr, op uint32) Status {
	if err == nil {
		return StatusOK
	}
	s := StatusTimeout
	var a *wait.AbortError
	if errors.As(err, &a) {
		s = Status(a.Reason)
	}
	if abort != 0 {
		word64(abort.Add(abortDetail)).Store(uint64(detail))
		word32(abort.Add(abortPeer)).Store(unknownPeer)
		word32(abort.Add(abortOp)).Store(op)
		word32(abort.Add(abortReported)).Store(uint32(s))
	}
	return s
}
