package executor

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/collective/fault"
	"github.com/goccl/goccl/internal/wait"
)

// fail wraps err as this rank's error for one launch of the plan (seq 0: no launch).
func (x *ExecutionPlan) fail(seq uint64, peer int, err error) error {
	if ae := fault.Of(err); ae != nil {
		return err
	}
	if peer < 0 {
		peer = fault.PeerOf(err)
	}
	return &collective.Error{Comm: x.e.name, Op: "plan " + x.plan.Name, Rank: x.e.rank, Peer: peer, Seq: seq, Err: err}
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{collective.ErrInvalidArgument}, args...)...)
}

func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{collective.ErrMismatch}, args...)...)
}

// ended turns the end of a wait into an error that names the place of the wait.
func (e *Executor) ended(err error, where string) error {
	if errors.Is(err, wait.ErrTimeout) {
		return fmt.Errorf("%w: after %v still %s", collective.ErrTimeout, e.timeout, where)
	}
	if cause := e.cause.Err(); cause != nil {
		return fmt.Errorf("%w, while %s: %w", collective.ErrAborted, where, cause)
	}
	return fmt.Errorf("%w, while %s: %w", collective.ErrAborted, where, err)
}
