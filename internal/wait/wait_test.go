package wait_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/test/testutil"
)

// sleepy sleeps at once, so that the tests cover the path that is otherwise rare.
var sleepy = &wait.Policy{Recheck: 50 * time.Millisecond}

func TestCellLayout(t *testing.T) {
	var c wait.Cell
	if unsafe.Sizeof(c) != wait.CellSize {
		t.Fatalf("a cell has %d bytes", unsafe.Sizeof(c))
	}
	_, mem := sharedMemory(t, 4096)
	p := unsafe.Pointer(&mem[64])
	cell := wait.At(p)
	cell.Store(5)
	cell.Add(2)
	if got := (*atomic.Uint64)(p).Load(); got != 7 {
		t.Fatalf("the counter at the cell's address is %d, want 7", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a cell that is not aligned was accepted")
		}
	}()
	wait.At(unsafe.Pointer(&mem[8]))
}

func TestNoWakeUpIsLost(t *testing.T) {
	var ping, pong wait.Cell
	l := wait.Limit{Deadline: wait.After(30 * time.Second)}
	// With an hour between rechecks, a lost wake-up would end the test by its deadline.
	p := &wait.Policy{Recheck: time.Hour}
	const rounds = 3000
	done := make(chan error, 1)
	go func() {
		for i := uint64(1); i <= rounds; i++ {
			if err := ping.WaitAtLeast(i, l, p); err != nil {
				done <- err
				return
			}
			pong.Add(1)
		}
		done <- nil
	}()
	for i := uint64(1); i <= rounds; i++ {
		ping.Add(1)
		if err := pong.WaitAtLeast(i, l, p); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestOneSignalWakesAll(t *testing.T) {
	var c wait.Cell
	var wg sync.WaitGroup
	l := wait.Limit{Deadline: wait.After(60 * time.Second)}
	for i := range 32 {
		p := sleepy
		if i%2 == 0 {
			p = nil
		}
		wg.Go(func() {
			if err := c.WaitAtLeast(3, l, p); err != nil {
				t.Error(err)
			}
		})
	}
	c.Add(1)
	time.Sleep(5 * time.Millisecond)
	c.Add(2)
	wg.Wait()
}

func TestCounterWrapsAround(t *testing.T) {
	var c wait.Cell
	c.Store(^uint64(0) - 1)
	if c.Reached(1) {
		t.Error("2 before the wrap counts as past it")
	}
	c.Add(3)
	if err := c.WaitAtLeast(^uint64(0), wait.Limit{}, nil); err != nil || !c.Reached(1) {
		t.Errorf("after the wrap: %v, value %d", err, c.Load())
	}
}

func TestDeadline(t *testing.T) {
	for name, p := range map[string]*wait.Policy{"default": nil, "sleepy": sleepy, "yielding": {YieldFor: time.Hour}} {
		var c wait.Cell
		start := time.Now()
		err := c.WaitAtLeast(1, wait.Limit{Deadline: wait.After(20 * time.Millisecond)}, p)
		if d := time.Since(start); !errors.Is(err, wait.ErrTimeout) || d < 20*time.Millisecond {
			t.Errorf("%s: %v after %v", name, err, d)
		}
	}
	if wait.AtTime(time.Time{}) != 0 || wait.After(0) != 0 || wait.AtTime(time.Unix(0, 0)) <= 0 {
		t.Error("never, or the past, is mistaken for the other")
	}
}

func TestAbort(t *testing.T) {
	for name, p := range map[string]*wait.Policy{"default": nil, "sleepy": sleepy, "yielding": {YieldFor: time.Hour}} {
		var c wait.Cell
		var abort atomic.Uint32
		time.AfterFunc(10*time.Millisecond, func() { abort.Store(9) })
		err := c.WaitAtLeast(1, wait.Limit{Abort: &abort}, p)
		var ae *wait.AbortError
		if !errors.Is(err, wait.ErrAborted) || !errors.As(err, &ae) || ae.Reason != 9 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUntilAnyCondition(t *testing.T) {
	var c wait.Cell
	var a, b atomic.Bool
	time.AfterFunc(time.Millisecond, func() { a.Store(true); c.Wake() })
	time.AfterFunc(2*time.Millisecond, func() { b.Store(true); c.Wake() })
	err := wait.Until(&c, func() bool { return a.Load() && b.Load() }, wait.Limit{Deadline: wait.After(60 * time.Second)},
		sleepy)
	if err != nil {
		t.Fatal(err)
	}
}

func TestWaitAllocatesNothing(t *testing.T) {
	var c wait.Cell
	next := uint64(0)
	n := testing.AllocsPerRun(100, func() {
		next++
		c.Add(1)
		if err := wait.Until(&c, func() bool { return c.Reached(next) }, wait.Limit{Deadline: wait.After(time.Minute)},
			nil); err != nil {
			t.Error(err)
		}
		if err := c.WaitAtLeast(next+1, wait.Limit{Deadline: wait.Now()}, sleepy); !errors.Is(err, wait.ErrTimeout) {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a wait", n)
	}
}

// Eight ranks that wait for a missing ninth must leave the cores to other processes.
func TestIdleRanksBurnNoCore(t *testing.T) {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	var abort atomic.Uint32
	cells := make([]wait.Cell, 8)
	var wg sync.WaitGroup
	for i := range cells {
		wg.Go(func() {
			_ = cells[i].WaitAtLeast(1, wait.Limit{Abort: &abort, Deadline: wait.After(60 * time.Second)}, nil)
		})
	}
	time.Sleep(50 * time.Millisecond)
	// A garbage collection, caused by another test, must not count as the ranks' CPU time.
	testutil.Prompt(t, 50*time.Millisecond, func() time.Duration {
		before := used()
		time.Sleep(500 * time.Millisecond)
		return used() - before
	})
	abort.Store(1)
	wg.Wait()
}

// When a late rank arrives, the others sleep; waking them must not cost much more than the system calls.
func BenchmarkLateRank(b *testing.B) {
	const n = 8
	_, mem := sharedMemory(b, meshBytes(n))
	m := newMesh(mem, n)
	p := wait.For(n, n)
	l := wait.Limit{Deadline: wait.After(60 * time.Second)}
	var late time.Duration
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			for i := 1; i <= b.N; i++ {
				var start time.Time
				if r == 0 {
					time.Sleep(2 * time.Millisecond)
					start = time.Now()
				}
				if err := m.exchange(r, uint64(i), l, p); err != nil {
					b.Error(err)
					return
				}
				if r == 0 {
					late += time.Since(start)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(late.Nanoseconds())/float64(b.N)/1e3, "µs/late")
}
