package collective

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective/fault"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
)

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
)

// kinds are the errors of the packages below and the errors here that stand for them.
var kinds = [...]struct{ theirs, ours error }{
	{ErrPeerDead, ErrPeerDead}, {ErrTimeout, ErrTimeout}, {context.DeadlineExceeded, ErrTimeout},
	{bootstrap.ErrProtocol, ErrMismatch}, {ErrMismatch, ErrMismatch}, {bootstrap.ErrGaveUp, ErrAborted},
	{ErrClosed, ErrClosed}, {ErrAborted, ErrAborted}, {device.ErrUnsupported, ErrUnsupported},
}

// Kind adds the kind above to an error of the packages below, if it has none.
func Kind(err error) error {
	for _, k := range kinds {
		switch {
		case !errors.Is(err, k.theirs):
		case errors.Is(err, k.ours):
			return err
		default:
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
