package collective

import "github.com/goccl/goccl/internal/fault"

// Error is what engines return, with one of the kinds below.
type Error = fault.Error

// The kinds of errors, by their names in this package.
var (
	ErrPeerDead        = fault.ErrPeerDead
	ErrTimeout         = fault.ErrTimeout
	ErrAborted         = fault.ErrAborted
	ErrClosed          = fault.ErrClosed
	ErrMismatch        = fault.ErrMismatch
	ErrCorrupt         = fault.ErrCorrupt
	ErrInvalidArgument = fault.ErrInvalidArgument
	ErrInvalidUsage    = fault.ErrInvalidUsage
	ErrUnsupported     = fault.ErrUnsupported
	ErrNoQuorum        = fault.ErrNoQuorum
)
