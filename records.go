package goccl

import (
	"io"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
)

// Records returns the last operations of this rank, its waits and the latest verdict, or nil if GOCCL_RECORD is 0.
func (c *Comm) Records() *record.Communicator { return c.record.Snapshot(0) }

// Verdict returns why the operation that waits now, or waited last, did so; nil: no operation has waited for long.
func (c *Comm) Verdict() *Verdict { return c.record.Verdict() }

// Verdict says why an operation waits and what to do: GOCCL_VERDICT_AFTER.
type Verdict = fault.Verdict

// WriteRecords writes the records of all communicators of this process in one of record.Formats.
func WriteRecords(w io.Writer, format string) error { return record.Write(w, record.Here(), format) }
