package share

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/bootstrap"
)

// Kinds of errors, for errors.Is. Waits that pass their limit wrap bootstrap.ErrTimeout.
var (
	// ErrMismatch: the ranks do not share the same memory in the same order.
	ErrMismatch = errors.New("the ranks disagree")
	// ErrEnded: the communicator was aborted or closed meanwhile.
	ErrEnded = errors.New("the communicator ended")
)

// Error is a failure for which a peer is to blame.
type Error struct {
	Peer int
	Err  error
}

// Error returns the text of the cause, which names the rank.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func blame(peer int, format string, args ...any) error {
	return &Error{Peer: peer, Err: fmt.Errorf(format, args...)}
}

// PeerOf returns the rank that an error of this package or of bootstrap blames, or -1.
func PeerOf(err error) int {
	var se *Error
	if errors.As(err, &se) {
		return se.Peer
	}
	var be *bootstrap.Error
	if errors.As(err, &be) {
		return be.Peer
	}
	return -1
}
