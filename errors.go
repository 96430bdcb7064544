package goccl

import (
	"io"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
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

// Records returns the last operations of this rank, its waits and the latest verdict, or nil if GOCCL_RECORD is 0.
func (c *Comm) Records() *record.Communicator { return c.record.Snapshot(0) }

// Verdict returns why the operation that waits now, or waited last, did so; nil: no operation has waited for long.
func (c *Comm) Verdict() *Verdict { return c.record.Verdict() }

// Verdict says why an operation waits and what to do: GOCCL_VERDICT_AFTER.
type Verdict = fault.Verdict

// WriteRecords writes the records of all communicators of this process in one of record.Formats.
func WriteRecords(w io.Writer, format string) error { return record.Write(w, record.Here(), format) }
