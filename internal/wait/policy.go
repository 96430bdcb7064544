package wait

import (
	"runtime"
	"time"
)

// Policy says how long a wait polls and yields before it sleeps.
type Policy struct {
	// Spin is the number of polls before the first yield, each followed by SpinPause pause instructions.
	Spin, SpinPause int
	// YieldFor is how long to poll and yield before sleeping; 0 is not at all.
	YieldFor time.Duration
	// GoschedEvery makes every n-th yield one to other goroutines; 0 is every one. It wakes a thread of this process to look for work, which
	// costs more than a switch to another process when there is none.
	GoschedEvery int
	// SchedYieldEvery makes every n-th yield one to other processes (sched_yield) besides; 0 is never.
	SchedYieldEvery int
	// Recheck is the longest sleep before the abort word and the deadline are looked at again.
	Recheck time.Duration
}

// For is the policy for a process that is home to ranksHere of the ranksOnHost busy ranks of this host. Numbers that are not known are 0.
//
// Polling without yielding pays only when no waiting rank keeps a working one from a core; otherwise each poll that fails delays the very
// signal that it waits for.
func For(ranksHere, ranksOnHost int) *Policy {
	cores := min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
	p := &Policy{Spin: 4, SpinPause: 1, YieldFor: 100 * time.Microsecond, SchedYieldEvery: 8, Recheck: 50 * time.Millisecond}
	if ranksOnHost > 0 && ranksOnHost <= cores {
		p.Spin, p.SpinPause = 500, 1 // 10 to 30 µs: a pause takes 40 to 140 cycles
	}
	if 0 < ranksHere && ranksHere < ranksOnHost {
		p.SchedYieldEvery = min(ranksHere, p.SchedYieldEvery) // once all goroutines of this process have had their turn
	}
	if ranksHere == 1 && ranksOnHost > 1 {
		p.GoschedEvery = 16 // whom this rank waits for is elsewhere
	}
	return p
}

var own = For(0, 0)

// Default is the policy for waits that bring none.
func Default() *Policy { return own }
