package wait

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrTimeout says that a wait's deadline has passed.
var ErrTimeout = errors.New("wait: deadline exceeded")

// ErrAborted is what every *AbortError is.
var ErrAborted = errors.New("wait: aborted")

// AbortError says that a wait ended because its abort word was set.
type AbortError struct{ Reason uint32 }

// Error names the reason, as the word held it.
func (e *AbortError) Error() string { return fmt.Sprintf("wait: aborted with reason %d", e.Reason) }

// Unwrap makes errors.Is(e, ErrAborted) true.
func (e *AbortError) Unwrap() error { return ErrAborted }

// Deadline is a moment on this process's monotonic clock, in nanoseconds; 0 is never. It is a plain number so that a Limit costs nothing to
// make and to check.
type Deadline int64

var base = time.Now()

// Now is the present moment.
func Now() Deadline { return Deadline(time.Since(base)) + 1 }

// After is the moment d from now; d <= 0 is never.
func After(d time.Duration) Deadline {
	if d <= 0 {
		return 0
	}
	return Now() + Deadline(d)
}

// AtTime is the moment t; the zero time is never.
func AtTime(t time.Time) Deadline {
	if t.IsZero() {
		return 0
	}
	return max(1, Deadline(t.Sub(base))+1)
}

// Limit ends a wait early. The zero Limit never does.
type Limit struct {
	Deadline Deadline
	// Abort, when not nil, ends the wait as soon as it is not 0.
	Abort *atomic.Uint32
	// Stall, when not nil, hears of a wait that lasts.
	Stall *Stall
}

// Stall is told, once a wait, that the wait has lasted for After. Waits that do not sleep never look at it.
type Stall struct {
	After  time.Duration
	Report func() // called by the waiter, which then goes on waiting
}

// Check is nil, ErrTimeout or an *AbortError.
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
