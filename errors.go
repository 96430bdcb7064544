package goccl

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/job/share"
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
	ErrClosed          = collective.ErrClosed
)

// Error describes a failure: the rank that detected it, the operation and, when they are known, the peer that caused it
// and the sequence number of the operation. Peer is -1 if no peer is to blame.
type Error = collective.Error

// wrap converts an error of op to an *Error with an error kind of this package.
func wrap(name, op string, rank int, err error) error {
	var ae *Error
	if errors.As(err, &ae) {
		if ae.Comm == "" { // from a step of set-up; not yet shared, so it may be changed
			ae.Comm = name
		}
		return err
	}
	return &Error{Comm: name, Op: op, Rank: rank, Peer: share.PeerOf(err), Err: collective.Kind(err)}
}

func (c *Comm) wrap(op string, err error) error { return wrap(c.cfg.Name, op, c.rank, err) }

func (c *Comm) errorf(op string, kind error, format string, args ...any) error {
	return &Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: -1,
		Err: fmt.Errorf("%w: "+format, append([]any{kind}, args...)...)}
}
