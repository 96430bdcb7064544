package verify

import (
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/sketch"
)

// TestVerifyCost checks the stated cost: 64 ranks × 32 thread blocks × about 64 ops in under 5 s. It measures CPU time
// and takes the better of two tries, because other tests run at the same time.
func TestVerifyCost(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of one core")
	}
	p := sketch.AllGatherPut(64, 32)
	best := time.Duration(1 << 62)
	for range 2 {
		before := processorTime(t)
		r, err := Check(p.Plan, Options{})
		if err != nil {
			t.Fatal(err)
		}
		took := processorTime(t) - before
		t.Logf("%d ops in %v", r.Steps, took)
		if best = min(best, took); best < 5*time.Second {
			return
		}
	}
	t.Errorf("verification took %v, the stated limit is 5 s", best)
}

func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
