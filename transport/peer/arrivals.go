package peer

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

// pageSize is the number of counters that are allocated together.
const pageSize = 64

type page [pageSize]atomic.Uint64

// Spin is how long a goroutine polls for what comes from a network before it sleeps. Its polls yield to other
// goroutines. With few processors it takes the one on which the other end of a connection would run.
func Spin() time.Duration {
	if runtime.GOMAXPROCS(0) < 4 {
		return 5 * time.Microsecond
	}
	return 50 * time.Microsecond
}

// Arrivals counts the puts that arrived, by immediate.
//
// An arrival increments the counter and then looks for sleepers. A waiter announces itself and then reads the counter.
// One of the two sees the other, so no wake-up is lost. Handlers follow the same rule.
type Arrivals struct {
	pages [transport.NumImmediates / pageSize]atomic.Pointer[page]

	sleepers atomic.Int32
	mu       sync.Mutex // guards waiters
	waiters  []*waiter

	handled  atomic.Int32
	calls    sync.Mutex // held during a call of a handler; guards handlers
	handlers map[uint32]func(arrived uint64)
}

// waiter is a sleeping Wait.
type waiter struct {
	imm  uint32
	n    uint64
	wake chan struct{}
}

// CheckImmediate returns an error if imm is not below NumImmediates.
func CheckImmediate(imm uint32) error {
	if imm >= transport.NumImmediates {
		return fmt.Errorf("%w: immediate %d; they are below %d", transport.ErrBounds, imm, transport.NumImmediates)
	}
	return nil
}

func (a *Arrivals) counter(imm uint32) *atomic.Uint64 {
	slot := &a.pages[imm/pageSize]
	p := slot.Load()
	if p == nil {
		slot.CompareAndSwap(nil, new(page))
		p = slot.Load()
	}
	return &p[imm%pageSize]
}

// Arrive counts one put with imm, which must be below NumImmediates. Its bytes are visible already.
func (a *Arrivals) Arrive(imm uint32) {
	n := a.counter(imm).Add(1)
	if a.sleepers.Load() > 0 {
		a.wake(imm, n)
	}
	if a.handled.Load() > 0 {
		a.calls.Lock()
		defer a.calls.Unlock()
		if f := a.handlers[imm]; f != nil {
			f(a.counter(imm).Load())
		}
	}
}

func (a *Arrivals) wake(imm uint32, n uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiters {
		if w.imm == imm && n >= w.n {
			wait.Signal(w.wake)
		}
	}
}

// Arrived returns the number of puts with imm that have arrived; 0 if imm is not below NumImmediates.
func (a *Arrivals) Arrived(imm uint32) uint64 {
	if imm >= transport.NumImmediates {
		return 0
	}
	return a.counter(imm).Load()
}

// OnArrival sets the handler of imm. The calls for one Peer do not overlap.
func (a *Arrivals) OnArrival(imm uint32, f func(arrived uint64)) {
	a.calls.Lock()
	defer a.calls.Unlock()
	if a.handlers == nil {
		a.handlers = map[uint32]func(uint64){}
	}
	if f == nil {
		delete(a.handlers, imm)
	} else {
		a.handlers[imm] = f
	}
	a.handled.Store(int32(len(a.handlers)))
}

// Wait waits until n puts with imm have arrived, f breaks, or ctx ends. While it polls it calls progress, if that is
// not nil, so that the network may work on this goroutine.
func (a *Arrivals) Wait(ctx context.Context, imm uint32, n uint64, f *Failure, progress func()) error {
	if err := CheckImmediate(imm); err != nil {
		return err
	}
	c := a.counter(imm)
	if c.Load() >= n {
		return nil
	}
	for end := time.Now().Add(Spin()); c.Load() < n; runtime.Gosched() {
		if progress != nil {
			if progress(); c.Load() >= n {
				return nil
			}
		}
		if f.Err() != nil || time.Now().After(end) {
			return a.sleep(ctx, c, &waiter{imm: imm, n: n, wake: make(chan struct{}, 1)}, f)
		}
	}
	return nil
}

func (a *Arrivals) sleep(ctx context.Context, c *atomic.Uint64, w *waiter, f *Failure) error {
	a.mu.Lock()
	a.waiters = append(a.waiters, w)
	a.mu.Unlock()
	a.sleepers.Add(1)
	defer func() {
		a.sleepers.Add(-1)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waiters = slices.DeleteFunc(a.waiters, func(o *waiter) bool { return o == w })
	}()
	for c.Load() < w.n {
		select {
		case <-w.wake:
		case <-f.Failed():
			if c.Load() >= w.n {
				return nil
			}
			return f.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
