package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/openfiles"
	"github.com/goccl/goccl/internal/sockets"
)

// The kinds of errors, for errors.Is.
var (
	ErrTimeout       = fault.ErrTimeout
	ErrAuth          = errors.New("authentication failed")
	ErrDuplicateRank = errors.New("rank is already taken")
	ErrRankRange     = errors.New("rank is out of range")
	ErrWorldSize     = errors.New("world sizes differ")
	ErrPeerDead      = fault.ErrPeerDead
	ErrClosed        = fault.ErrClosed
	ErrProtocol      = errors.New("protocol violation")
	ErrTooLarge      = errors.New("message is too large")
	ErrInvalid       = fault.ErrInvalidArgument
	ErrAttempt       = errors.New("of different attempts of the job")
	ErrGaveUp        = errors.New("a rank has given up")
)

// Error is the error of every operation of this package.
type Error = fault.Error

// Part is the part of this package's errors.
const Part = "bootstrap"

func fail(op string, rank, peer int, err error) error {
	return &Error{Part: Part, Op: op, Rank: rank, Peer: peer, Err: sockets.Explain(openfiles.Explain(err))}
}

// peerDead makes cause the reason of a death. errors.Is finds ErrPeerDead and cause, except a timeout, of which only
// the text stays: a loop of receives goes on after a timeout, and must end after a death.
func peerDead(cause error) error {
	if errors.Is(cause, ErrTimeout) {
		return fmt.Errorf("%w: %v", ErrPeerDead, cause)
	}
	if errors.Is(cause, ErrPeerDead) {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrPeerDead, cause)
}

// stepContext bounds one step. Its cause distinguishes our own deadline from the caller's.
func stepContext(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w after %v (raise it with WithTimeout or GOCCL_TIMEOUT)",
		ErrTimeout, timeout))
}

// operationContext bounds one operation by the deadline of ctx, which may be later than a step's. If ctx has
// none, timeout applies.
func operationContext(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return stepContext(ctx, timeout)
}

// contextError returns nil for a live context. It converts an ended one to ErrTimeout or to the caller's cancellation.
func contextError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrTimeout) {
		return cause
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrTimeout, cause)
	}
	return cause
}

// pause waits for d, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// kinds are errors of this package and of devices, and the kinds of package fault that communicators have for them.
var kinds = [...]struct{ theirs, ours error }{
	{ErrPeerDead, ErrPeerDead}, {ErrTimeout, ErrTimeout}, {context.DeadlineExceeded, ErrTimeout},
	{ErrProtocol, fault.ErrMismatch}, {fault.ErrMismatch, fault.ErrMismatch}, {ErrGaveUp, fault.ErrAborted},
	{ErrClosed, ErrClosed}, {fault.ErrAborted, fault.ErrAborted}, {device.ErrUnsupported, fault.ErrUnsupported},
}

// Kind adds the kind of package fault to an error, if it has none.
func Kind(err error) error {
	for _, k := range kinds {
		switch {
		case !errors.Is(err, k.theirs):
		case errors.Is(err, k.ours):
			return err
		default:
			return fmt.Errorf("%w: %w", k.ours, err)
		}
	}
	return err
}

// Told undoes Kind for an error that another rank is told of: the result has the text of err and the kind of this
// package.
func Told(err error) error {
	for _, k := range kinds {
		if errors.Is(err, k.ours) {
			return told{err, k.theirs}
		}
	}
	return err
}

type told struct {
	error
	kind error
}

func (t told) Unwrap() error { return t.kind }
