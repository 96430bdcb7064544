package wait

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/internal/fault"
)

// Waits end with ErrTimeout when their deadline has passed. ErrAborted matches every *AbortError.
var (
	ErrTimeout = fault.ErrTimeout
	ErrAborted = fault.ErrAborted
)

// AbortError means that a wait ended because its abort word was set.
type AbortError struct{ Reason uint32 }

// Error formats the value of the abort word.
func (e *AbortError) Error() string { return fmt.Sprintf("wait: aborted with reason %d", e.Reason) }

// Unwrap makes errors.Is(e, ErrAborted) true.
func (e *AbortError) Unwrap() error { return ErrAborted }

// Deadline is a time on this process's monotonic clock, in nanoseconds; 0 means no deadline. It is a plain number so
// that a Limit is cheap to make and to check.
type Deadline int64

var base = time.Now()

// Now returns the current time.
func Now() Deadline { return Deadline(time.Since(base)) + 1 }

// After returns the time d from now; d <= 0 means no deadline.
func After(d time.Duration) Deadline {
	if d <= 0 {
		return 0
	}
	return Now() + Deadline(d)
}

// AtTime returns the Deadline at t; the zero time means no deadline.
func AtTime(t time.Time) Deadline {
	if t.IsZero() {
		return 0
	}
	return max(1, Deadline(t.Sub(base))+1)
}

// Limit ends a wait early. The zero Limit does not.
type Limit struct {
	Deadline Deadline
	// Abort, when not nil, ends the wait as soon as it is not 0.
	Abort *atomic.Uint32
	// Stall, when not nil, is notified of a long wait.
	Stall *Stall
}

// Stall calls Report, once per wait, when the wait has lasted for After. Waits that do not sleep ignore it.
type Stall struct {
	After  time.Duration
	Report func() // called by the waiter, which then continues to wait
}

// Check returns nil, ErrTimeout or an *AbortError.
func (l Limit) Check() error {
	if l.Abort != nil {
		if r := l.Abort.Load(); r != 0 {
			return &AbortError{Reason: r}
		}
	}
	if l.Deadline != 0 && Now() >= l.Deadline {
		return ErrTimeout
	}
	return nil
}
