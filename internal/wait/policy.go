package wait

import (
	"runtime"
	"time"
)

// Policy configures how long a wait polls and yields before it sleeps.
type Policy struct {
	// Spin is the number of polls before the first yield, each followed by SpinPause pause instructions.
	Spin, SpinPause int
	// YieldFor is how long to poll and yield before sleeping; 0 disables this step.
	YieldFor time.Duration
	// GoschedEvery makes every n-th yield run other goroutines (runtime.Gosched); 0 means every yield. Gosched wakes a
	// thread of this process to look for work; without work that costs more than a switch to another process.
	GoschedEvery int
	// SchedYieldEvery makes every n-th yield also run other processes (sched_yield); 0 means never.
	SchedYieldEvery int
	// Recheck is the longest sleep before the abort word and the deadline are polled again.
	Recheck time.Duration
}

// For returns the policy for a process with ranksHere of the ranksOnHost busy ranks of this host. 0 means unknown.
//
// Polling without yielding pays off only if waiting ranks do not occupy the cores of working ranks. Otherwise each
// failed poll delays the signal that it waits for.
func For(ranksHere, ranksOnHost int) *Policy {
	cores := min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
	p := &Policy{Spin: 4, SpinPause: 1, YieldFor: 100 * time.Microsecond, SchedYieldEvery: 8,
		Recheck: 50 * time.Millisecond}
	if ranksOnHost > 0 && ranksOnHost <= cores {
		p.Spin, p.SpinPause = 500, 1 // 10 to 30 µs: a pause takes 40 to 140 cycles
	}
	if 0 < ranksHere && ranksHere < ranksOnHost {
		p.SchedYieldEvery = min(ranksHere, p.SchedYieldEvery) // after all goroutines of this process have run
	}
	if ranksHere == 1 && ranksOnHost > 1 {
		p.GoschedEvery = 16 // the peers of this rank are in other processes
	}
	return p
}

var own = For(0, 0)

// Default returns the policy for waits without an explicit one.
func Default() *Policy { return own }
