package testutil

import (
	"fmt"
	"net"
	"testing"
	"time"
)

func TestPort(t *testing.T) {
	port := Port(t)
	for range 2 { // again after the first has gone
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Close(), l.Close()
	}
	if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		t.Error("somebody listens", c.Close())
	}
}

// A failing is a test that notes its failure.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }
func (f *failing) Failed() bool          { return f.failed }

// An operation fails if it is late three times on an idle machine. On a busy one it passes.
func TestPrompt(t *testing.T) {
	for _, c := range []struct {
		busy, late, calls int
		failed            bool
	}{{0, 2, 3, false}, {0, 3, 3, true}, {1, 100, 1, false}} {
		f, calls, idle, all := &failing{TB: t}, 0, uint64(0), uint64(0)
		prompt(f, time.Second, func() time.Duration {
			calls++
			if all += 100; calls > c.busy {
				idle += 50
			}
			if calls <= c.late {
				return time.Minute
			}
			return 0
		}, func() (uint64, uint64) { return idle, all })
		if calls != c.calls || f.failed != c.failed {
			t.Errorf("%+v: %d calls, failed %v", c, calls, f.failed)
		}
	}
	if idle, all := idle(); all == 0 || idle > all {
		t.Errorf("idle for %d of %d", idle, all)
	}
}
