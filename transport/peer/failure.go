package peer

import (
	"sync"
	"sync/atomic"
)

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
