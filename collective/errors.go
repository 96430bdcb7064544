package collective

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

// Errors that an engine returns inside an *Error.
var (
	ErrPeerDead        = errors.New("a rank has died or its host cannot be reached")
	ErrTimeout         = errors.New("the deadline passed")
	ErrAborted         = errors.New("the communicator was aborted")
	ErrClosed          = errors.New("the communicator is closed")
	ErrMismatch        = errors.New("ranks called different operations")
	ErrCorrupt         = errors.New("data was damaged")
	ErrInvalidArgument = errors.New("invalid argument")
	ErrInvalidUsage    = errors.New("invalid usage")
	ErrUnsupported     = errors.New("not supported")
)

// kinds are the errors of the packages below and the errors here that stand for them.
var kinds = [...]struct{ theirs, ours error }{
	{bootstrap.ErrPeerDead, ErrPeerDead}, {bootstrap.ErrTimeout, ErrTimeout}, {context.DeadlineExceeded, ErrTimeout},
	{bootstrap.ErrProtocol, ErrMismatch}, {share.ErrMismatch, ErrMismatch}, {bootstrap.ErrGaveUp, ErrAborted},
	{bootstrap.ErrClosed, ErrClosed}, {share.ErrEnded, ErrAborted}, {device.ErrUnsupported, ErrUnsupported},
}

// Kind adds the kind above to an error of the packages below, if it has one.
func Kind(err error) error {
	for _, k := range kinds {
		if errors.Is(err, k.theirs) {
			return fmt.Errorf("%w: %w", k.ours, err)
		}
	}
	return err
}

// Told undoes Kind for an error that another rank is told of: the result has the text of err and the kind of package
// bootstrap.
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

// Error gives the rank that saw a failure, the operation, and the peer that caused it. Peer is -1 if no peer is to
// blame; Seq is 0 if the failure belongs to no numbered operation.
type Error struct {
	Comm string // the communicator's name, if it has one
	Op   string
	Rank int
	Peer int
	Seq  uint64
	Err  error
	// Verdict is what the ranks found when they compared their records while the operation waited, or nil.
	Verdict *Verdict
}

// Error formats e like "goccl: all_reduce #12 on rank 3, peer 5: the deadline passed".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("goccl: ")
	b.WriteString(e.Op)
	if e.Seq != 0 {
		fmt.Fprintf(&b, " #%d", e.Seq)
	}
	if e.Comm != "" {
		fmt.Fprintf(&b, " of %q", e.Comm)
	}
	fmt.Fprintf(&b, " on rank %d", e.Rank)
	if e.Peer >= 0 {
		fmt.Fprintf(&b, ", peer %d", e.Peer)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	if e.Verdict != nil {
		b.WriteString(" [" + e.Verdict.String() + "]")
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
