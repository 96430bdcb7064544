package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
)

// kinds are errors of this package and of devices, and the kinds of package fault that communicators have for them.
var kinds = [...]struct{ theirs, ours error }{
	{ErrPeerDead, ErrPeerDead}, {ErrTimeout, ErrTimeout}, {context.DeadlineExceeded, ErrTimeout},
	{ErrProtocol, fault.ErrMismatch}, {fault.ErrMismatch, fault.ErrMismatch}, {ErrGaveUp, fault.ErrAborted},
	{ErrClosed, ErrClosed}, {fault.ErrAborted, fault.ErrAborted}, {device.ErrUnsupported, fault.ErrUnsupported},
}

// Kind adds the kind of package fault to an error, if it has none.
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

// Told undoes Kind for an error that another rank is told of: the result has the text of err and the kind of this
// package.
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
