package primitive

import (
	"errors"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
)

// Waits in host kernels follow the rules of kernels/include/goccl/abort.cuh: they end when the condition holds, when
// the host raises the abort word, when the spin limit passes, or when another wait of the same Context has failed
// before.

// defaultSpinLimit bounds waits without an abort block.
const defaultSpinLimit = 60 * time.Second

// waitCell waits in a kernel until cond holds. The code that makes cond true must wake c.
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

// enter counts a waiting host kernel, so that Context.Close does not unmap the memory that it polls.
func enter(abort device.Ptr) (leave func()) {
	if abort == 0 {
		return func() {}
	}
	active := word32(abort.Add(abortActive))
	active.Add(1)
	return func() { active.Add(^uint32(0)) }
}

// limitOf reads the abort block once: the wait polls its abort word, and its spin limit becomes a deadline.
func limitOf(abort device.Ptr) (wait.Limit, Status) {
	if abort == 0 {
		return wait.Limit{Deadline: wait.After(defaultSpinLimit)}, StatusOK
	}
	if s := Status(word32(abort.Add(abortReported)).Load()); s != StatusOK {
		return wait.Limit{}, s
	}
	return wait.Limit{Deadline: wait.After(time.Duration(word64(abort.Add(abortSpin)).Load())), Abort: word32(abort)},
		StatusOK
}

// giveUp converts the result of a wait to a Status and reports a failure in the abort block.
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
