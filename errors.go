package goccl

import (
	"github.com/goccl/goccl/collective"
)

// Errors to test for with errors.Is. Each is wrapped in an *Error with the rank, the operation and the sequence number.
var (
	ErrPeerDead        = collective.ErrPeerDead
	ErrTimeout         = collective.ErrTimeout
	ErrAborted         = collective.ErrAborted
	ErrMismatch        = collective.ErrMismatch
	ErrCorrupt         = collective.ErrCorrupt // found with Config.CheckData
	ErrInvalidArgument = collective.ErrInvalidArgument
	ErrInvalidUsage    = collective.ErrInvalidUsage
	ErrUnsupported     = collective.ErrUnsupported
	ErrNoQuorum        = collective.ErrNoQuorum // of Shrink, with Config.Quorum: also an ErrAborted
	ErrClosed          = collective.ErrClosed
)

// Error describes a failure: the rank that detected it, the operation and, when they are known, the peer that caused it
// and the sequence number of the operation. Peer is -1 if no peer is to blame.
type Error = collective.Error

func (c *Comm) wrap(op string, err error) error { return c.group.Wrap(op, err) }

func (c *Comm) errorf(op string, kind error, format string, args ...any) error {
	return c.group.Errorf(op, kind, format, args...)
}
