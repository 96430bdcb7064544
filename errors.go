package goccl

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
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
	ErrClosed          = algorithm.ErrClosed
)

// Error says where a failure was seen: on which rank, in which operation, and, when they are known, because of which peer and in the
// operation with which sequence number. Peer is -1 when no peer is to blame.
type Error = algorithm.Error

// wrap makes an *Error of what went wrong in op, in the words of this package.
func wrap(name, op string, rank int, err error) error {
	var ae *Error
	if errors.As(err, &ae) {
		if ae.Comm == "" { // of a step of set-up, which nobody else has seen
			ae.Comm = name
		}
		return err
	}
	for _, k := range []struct{ theirs, ours error }{
		{bootstrap.ErrPeerDead, ErrPeerDead}, {bootstrap.ErrTimeout, ErrTimeout}, {context.DeadlineExceeded, ErrTimeout}, {bootstrap.ErrClosed, ErrClosed},
		{bootstrap.ErrProtocol, ErrMismatch},
	} {
		if errors.Is(err, k.theirs) {
			err = fmt.Errorf("%w: %w", k.ours, err)
			break
		}
	}
	return &Error{Comm: name, Op: op, Rank: rank, Peer: peerOf(err), Err: err}
}

func (c *Comm) wrap(op string, err error) error { return wrap(c.cfg.Name, op, c.rank, err) }

// peerOf is the peer that an error of the bootstrap blames, or -1.
func peerOf(err error) int {
	var be *bootstrap.Error
	if errors.As(err, &be) {
		return be.Peer
	}
	return -1
}

func (c *Comm) errorf(op string, kind error, format string, args ...any) error {
	return &Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: -1, Err: fmt.Errorf("%w: "+format, append([]any{kind}, args...)...)}
}
