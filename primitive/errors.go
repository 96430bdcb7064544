package primitive

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/internal/fault"
)

// The kinds of errors, for errors.Is. They are wrapped in an *Error with rank, peer and operation.
var (
	ErrTimeout     = fault.ErrTimeout
	ErrAborted     = fault.ErrAborted
	ErrPeerDead    = fault.ErrPeerDead
	ErrClosed      = fault.ErrClosed
	ErrInvalid     = fault.ErrInvalidArgument
	ErrUnsupported = fault.ErrUnsupported
)

// NoRank is the number of an unknown rank or peer.
const NoRank = -1

// Part is the part of this package's errors.
const Part = "primitive"

// Error is the error of every operation of this package.
type Error = fault.Error

// failure makes an error of a rank and its peer, each of which may be NoRank.
func failure(op string, rank, peer int, err error) *Error {
	return &Error{Part: Part, Op: op, Rank: rank, Peer: peer, Err: err}
}

// invalid returns an *Error about an invalid argument.
func invalid(op, format string, args ...any) error {
	return failure(op, NoRank, NoRank, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
}

// asCause converts the end of a context.Context to this package's errors. It returns other errors unchanged.
func asCause(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (%w)", ErrTimeout, err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w (%w)", ErrAborted, err)
	}
	return err
}

// wrap adds the operation and the ranks. An *Error that already has a peer is returned unchanged.
func wrap(err error, op string, rank, peer int) error {
	if err == nil {
		return nil
	}
	if e := fault.PartOf(err, Part); e != nil && e.Peer >= 0 {
		return err
	}
	return failure(op, rank, peer, asCause(err))
}
