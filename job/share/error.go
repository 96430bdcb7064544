package share

import (
	"errors"
	"slices"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/transport/wire"
)

// ErrNotMapped: some rank could not map the memory of another. Other errors have kinds of package fault: ErrTimeout,
// ErrMismatch where the ranks do not share the same memory in the same order, and ErrAborted.
var ErrNotMapped = errors.New("cannot map the memory")

// Part is the part of errors for which a peer is to blame (fault.Error).
const Part = "memory"

func blame(peer int, format string, args ...any) error {
	return fault.Blame(Part, peer, format, args...)
}

// reason is the error of another rank. kind is one of the errors below, or nil.
type reason struct {
	text string
	kind error
}

func (e *reason) Error() string { return e.text }
func (e *reason) Unwrap() error { return e.kind }

// kinds are the errors that other ranks recognise; their order is part of the protocol.
var kinds = []error{device.ErrOutOfMemory, device.ErrUnsupported, device.ErrNotShareable, fault.ErrMismatch}

const maxReason = 1 << 10

// putReason appends an error, or nil, and the name of the rank whose process is gone, if that is the reason.
func putReason(w *wire.Writer, err error) {
	if err == nil {
		w.Bytes(nil)
		return
	}
	text, gone := err.Error(), -1
	if errors.Is(err, fdshare.ErrGone) {
		gone = fault.PeerOf(err)
	}
	w.Bytes([]byte(text[:min(len(text), maxReason)]))
	w.U8(uint8(slices.IndexFunc(kinds, func(k error) bool { return errors.Is(err, k) })))
	w.U32(uint32(int32(gone)))
}

// getReason decodes what putReason has written. gone is -1 if no process is gone.
func getReason(r *wire.Reader) (gone int, err error) {
	e := reason{text: string(r.Bytes(maxReason))}
	if e.text == "" {
		return -1, nil
	}
	if k := int(r.U8()); k < len(kinds) {
		e.kind = kinds[k]
	}
	return int(int32(r.U32())), &e
}
