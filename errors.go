package goccl

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/algorithm"
)

// Errors to test for with errors.Is. Each arrives inside an *Error that says which rank, operation and sequence number.
var (
	ErrPeerDead        = algorithm.ErrPeerDead
	ErrTimeout         = algorithm.ErrTimeout
	ErrAborted         = algorithm.ErrAborted
	ErrMismatch        = algorithm.ErrMismatch
	ErrInvalidArgument = algorithm.ErrInvalidArgument
	ErrInvalidUsage    = algorithm.ErrInvalidUsage
	ErrUnsupported     = algorithm.ErrUnsupported
	ErrClosed          = errors.New("communicator is closed")
)

// Error says where a failure was seen: on which rank, in which operation, and, when they are known, because of which peer and in the
// operation with which sequence number. Peer is -1 when no peer is to blame.
type Error = algorithm.Error

func (c *Comm) errorf(op string, kind error, format string, args ...any) error {
	return &Error{Op: op, Rank: c.rank, Peer: -1, Err: fmt.Errorf("%w: "+format, append([]any{kind}, args...)...)}
}
