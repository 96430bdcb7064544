package primitive

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goccl/goccl/collective/fault"
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

// Error describes the failed operation, its rank and its peer.
type Error struct {
	Op   string
	Rank int    // this rank, or NoRank
	Peer int    // the other rank, or NoRank
	Info string // details: an address, a size, a name
	Err  error
}

// Error formats e, for example "primitive: flush (rank 0, peer 3): timed out: 12 writes outstanding".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("primitive: ")
	b.WriteString(e.Op)
	switch {
	case e.Rank >= 0 && e.Peer >= 0:
		fmt.Fprintf(&b, " (rank %d, peer %d)", e.Rank, e.Peer)
	case e.Rank >= 0:
		fmt.Fprintf(&b, " (rank %d)", e.Rank)
	case e.Peer >= 0:
		fmt.Fprintf(&b, " (peer %d)", e.Peer)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	if e.Info != "" {
		b.WriteString(": ")
		b.WriteString(e.Info)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// invalid returns an *Error about an invalid argument.
func invalid(op, format string, args ...any) error {
	return &Error{Op: op, Rank: NoRank, Peer: NoRank, Info: fmt.Sprintf(format, args...), Err: ErrInvalid}
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
	var e *Error
	if errors.As(err, &e) && e.Peer >= 0 {
		return err
	}
	return &Error{Op: op, Rank: rank, Peer: peer, Err: asCause(err)}
}
