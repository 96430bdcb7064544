package share

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport/wire"
)

// Kinds of errors, for errors.Is. Waits that pass their limit wrap bootstrap.ErrTimeout.
var (
	// ErrMismatch: the ranks do not share the same memory in the same order.
	ErrMismatch = errors.New("the ranks disagree")
	// ErrEnded: the communicator was aborted or closed meanwhile.
	ErrEnded = errors.New("the communicator ended")
	// ErrNotMapped: some rank could not map the memory of another.
	ErrNotMapped = errors.New("cannot map the memory")
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

// reason is the error of another rank. kind is one of the errors below, or nil.
type reason struct {
	text string
	kind error
}

func (e *reason) Error() string { return e.text }
func (e *reason) Unwrap() error { return e.kind }

// kinds are the errors that other ranks recognise; their order is part of the protocol.
var kinds = []error{device.ErrOutOfMemory, device.ErrUnsupported, device.ErrNotShareable, ErrMismatch}

const maxReason = 1 << 10

// putReason appends an error, or nil.
func putReason(w *wire.Writer, err error) {
	if err == nil {
		w.Bytes(nil)
		return
	}
	text := err.Error()
	w.Bytes([]byte(text[:min(len(text), maxReason)]))
	w.U8(uint8(slices.IndexFunc(kinds, func(k error) bool { return errors.Is(err, k) })))
}

// getReason decodes what putReason has written.
func getReason(r *wire.Reader) error {
	e := reason{text: string(r.Bytes(maxReason))}
	if e.text == "" {
		return nil
	}
	if k := int(r.U8()); k < len(kinds) {
		e.kind = kinds[k]
	}
	return &e
}
