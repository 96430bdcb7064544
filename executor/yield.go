package executor

import (
	"github.com/goccl/goccl/internal/wait"
)

const (
	// yieldFor is how long a rank that is alone in its process yields its core to others before it sleeps: long enough
	// for ranks that share a core to take turns through a small collective, short enough that a late rank costs them
	// nothing.
	yieldFor = wait.Deadline(200_000)
	// yieldsPerLook is the number of yields between checks of the clock, the deadline and the abort word.
	yieldsPerLook = 8
)

// asleep is the policy of a wait that has yielded long enough.
var asleep = &wait.Policy{Recheck: wait.Default().Recheck}

// until is wait.Until at the rank's door or at its turn.
//
// A rank that is alone in its process yields to other processes only. runtime.Gosched would find no other goroutine to
// run here, and each call wakes a thread of this process that then looks for work and takes the core from the very
// ranks that this rank waits for: with 8 ranks on 2 cores that was half of the time of a small collective. Goroutines
// that become ready meanwhile run on the scheduler's other processors, or after yieldFor, when the wait blocks in the
// kernel.
func (h *hostEngine) until(c *wait.Cell, cond func() bool, l wait.Limit) error {
	if !h.alone {
		return wait.Until(c, cond, l, h.policy)
	}
	if cond() {
		return nil
	}
	for end, i := wait.Deadline(0), 1; ; i++ {
		schedYield()
		if cond() {
			return nil
		}
		if i%yieldsPerLook != 0 {
			continue
		}
		if err := l.Check(); err != nil {
			return err
		}
		now := wait.Now()
		if end == 0 {
			end = now + yieldFor
		}
		if now >= end {
			return wait.Until(c, cond, l, asleep)
		}
	}
}
