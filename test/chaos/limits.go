package chaos

import (
	"fmt"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/ranks"
)

// Limits of times, which docs/reliability.md states. Options.Slow multiplies them.
const (
	// TellLimit bounds the time from a fault until every survivor has its error, beyond the configured wait: see wait.
	TellLimit = time.Second
	// RecoverLimit bounds the time from the last survivor's error until the survivors have used a new communicator.
	RecoverLimit = 2 * time.Second
)

// joinTimeout bounds joining where a rank may die before any other rank has heard of it.
const joinTimeout = 3 * time.Second

// patience bounds a step of the trial, after which a rank hangs.
func (t *Trial) patience() time.Duration {
	return t.Hold + time.Duration(min(10, t.Slow)*float64(limit))
}

// timeout is Config.Timeout of a rank's communicators. A stopped rank makes Split and NewComm wait that long.
func (t *Trial) timeout(f *fault) time.Duration {
	if f.expect == stall {
		return 3 * t.Hold
	}
	return hold
}

// wait is the configured time without which a rank cannot know of the fault: no rank can tell earlier that a peer is
// stopped, partitioned or has not come.
func (x *experiment) wait(e ranks.Report) time.Duration {
	notCome := e.Kind == goccl.ErrTimeout.Error()
	switch expect := x.fault.expect; {
	case x.Phase == "joining" && (notCome || expect == typed):
		return joinTimeout
	case x.fault.partition:
		return setting.Unreachable(0)
	case expect == stall && !x.phase.collective:
		return x.timeout(x.fault)
	case expect == stall:
		return x.Hold
	case expect == typed, expect == death && notCome:
		return hold
	}
	return 0
}

// late describes a time that exceeds its limit; it is "" for one that does not.
func (x *experiment) late(what string, took, limit time.Duration) string {
	if limit = time.Duration(x.Slow * float64(limit)); took <= limit {
		return ""
	}
	return fmt.Sprintf("%s %v after the fault; the limit is %v", what, took.Round(ms), limit)
}
