package wait

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/goccl/goccl/internal/futex"
)

// checkEvery is the number of yields between checks of the clock, the deadline and the abort word.
const checkEvery = 8

// Until waits until cond is true, or fails with ErrTimeout or an *AbortError. The code that makes cond true must call
// c.Wake, or change c, afterwards. cond runs often and must be cheap; it may run once more after it was true. A nil
// policy means Default.
func Until(c *Cell, cond func() bool, l Limit, p *Policy) error {
	// 1. Poll. 2. Yield.
	if cond() {
		return nil
	}
	if p == nil {
		p = Default()
	}
	if done, err := awake(cond, l, p); done || err != nil {
		return err
	}
	// 3. Sleep.
	c.waiters.Add(1)
	defer c.waiters.Add(^uint32(0))
	stalled := Deadline(0)
	if l.Stall != nil {
		stalled = After(l.Stall.After)
	}
	for {
		seq := c.sequence.Load()
		if cond() {
			return nil
		}
		if err := l.Check(); err != nil {
			return err
		}
		if stalled != 0 && Now() >= stalled {
			stalled = 0
			l.Stall.Report()
		}
		if err := futex.Wait(&c.sequence, seq, sleepFor(l, p)); err != nil && !errors.Is(err, ErrTimeout) {
			return fmt.Errorf("wait: %w", err)
		}
	}
}

// awake is the part of a wait before sleeping: it polls, then yields. It returns true when cond is true, false when its
// time is over.
func awake(cond func() bool, l Limit, p *Policy) (bool, error) {
	for range p.Spin {
		pause(p.SpinPause)
		if cond() {
			return true, nil
		}
	}
	if p.YieldFor <= 0 {
		return false, nil
	}
	return yield(cond, l, p)
}

// yield is the second part of awake.
func yield(cond func() bool, l Limit, p *Policy) (bool, error) {
	end := Now() + Deadline(p.YieldFor)
	toSched := p.SchedYieldEvery
	for i := 1; ; i++ {
		if p.GoschedEvery == 0 || i%p.GoschedEvery == 0 {
			runtime.Gosched()
			if cond() {
				return true, nil
			}
		}
		if toSched--; toSched == 0 {
			toSched = p.SchedYieldEvery
			schedYield()
			if cond() {
				return true, nil
			}
		}
		if i%checkEvery == 0 {
			if err := l.Check(); err != nil {
				return false, err
			}
			if Now() >= end {
				return false, nil
			}
		}
	}
}

// sleepFor returns how long to sleep: until the deadline, but not longer than Recheck.
func sleepFor(l Limit, p *Policy) time.Duration {
	d := p.Recheck
	if d <= 0 {
		d = 50 * time.Millisecond
	}
	if l.Deadline != 0 {
		d = min(d, time.Duration(l.Deadline-Now()))
	}
	return max(d, time.Microsecond)
}
