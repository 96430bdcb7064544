package peer

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// Pending counts the puts that have begun and not arrived. A flush ends an epoch: it waits for the puts of this epoch
// and of earlier ones, and for no later put.
type Pending struct {
	mu      sync.Mutex
	epoch   uint64
	open    map[uint64]int // the number of pending puts of each epoch that has some
	flushes []flush
}

type flush struct {
	epoch uint64
	done  chan struct{}
}

// Begin counts a put. Its End gets the epoch.
func (p *Pending) Begin() (epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[uint64]int{}
	}
	p.open[p.epoch]++
	return p.epoch
}

// End is called once for each Begin, when the put has arrived or will never arrive.
func (p *Pending) End(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[epoch]--; p.open[epoch] > 0 {
		return
	}
	delete(p.open, epoch)
	p.flushes = slices.DeleteFunc(p.flushes, func(f flush) bool {
		if p.busy(f.epoch) {
			return false
		}
		close(f.done)
		return true
	})
}

// busy reports whether a put of epoch or of an earlier one is pending. The caller holds mu.
func (p *Pending) busy(epoch uint64) bool {
	for e := range p.open {
		if e <= epoch {
			return true
		}
	}
	return false
}

// Flush waits until every put that began before the call has ended, f breaks, or ctx ends. If it has to wait it calls
// urge first.
func (p *Pending) Flush(ctx context.Context, f *Failure, urge func()) error {
	if err := f.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	epoch := p.epoch
	if !p.busy(epoch) {
		p.mu.Unlock()
		return nil
	}
	p.epoch++
	done := make(chan struct{})
	p.flushes = append(p.flushes, flush{epoch, done})
	p.mu.Unlock()
	urge()
	select {
	case <-done:
		return f.Err() // a Peer that breaks ends its puts too
	case <-f.Failed():
		return f.Err()
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		p.flushes = slices.DeleteFunc(p.flushes, func(o flush) bool { return o.done == done })
		return context.Cause(ctx)
	}
}

// Failure is the first error of a Peer. Make it with NewFailure.
type Failure struct {
	once   sync.Once
	err    atomic.Pointer[error]
	failed chan struct{}
}

// NewFailure returns a Failure without an error.
func NewFailure() *Failure { return &Failure{failed: make(chan struct{})} }

// Fail sets the error. It reports whether it was the first one; later ones are ignored.
func (f *Failure) Fail(err error) (first bool) {
	f.once.Do(func() {
		first = true
		f.err.Store(&err)
		close(f.failed)
	})
	return first
}

// Failed is closed when the error is set.
func (f *Failure) Failed() <-chan struct{} { return f.failed }

// Err returns the error, or nil.
func (f *Failure) Err() error {
	if e := f.err.Load(); e != nil {
		return *e
	}
	return nil
}
