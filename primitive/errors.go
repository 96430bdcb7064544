package primitive

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// What can go wrong, for errors.Is. They arrive wrapped in an *Error that names rank, peer and operation.
var (
	ErrTimeout     = errors.New("timed out")
	ErrAborted     = errors.New("aborted")
	ErrPeerDead    = errors.New("peer is dead")
	ErrClosed      = errors.New("closed")
	ErrInvalid     = errors.New("invalid argument")
	ErrUnsupported = errors.New("not supported")
)

// NoRank stands for a rank or peer that is not known.
const NoRank = -1

// Error says which operation failed, at which rank and towards which peer.
type Error struct {
	Op   string
	Rank int    // this rank, or NoRank
	Peer int    // the other rank, or NoRank
	Info string // what it was about: an address, a size, a name
	Err  error
}

// Error is like "primitive: flush (rank 0, peer 3): timed out: 12 writes outstanding".
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

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// invalid is an *Error about an argument that cannot be right.
func invalid(op, format string, args ...any) error {
	return &Error{Op: op, Rank: NoRank, Peer: NoRank, Info: fmt.Sprintf(format, args...), Err: ErrInvalid}
}

// asCause maps the end of a context.Context to this package's errors and leaves the rest alone.
func asCause(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (%w)", ErrTimeout, err)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w (%w)", ErrAborted, err)
	}
	return err
}

// wrap names the operation and the ranks. An *Error that already names a peer passes through.
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
