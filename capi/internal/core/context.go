package core

import (
	"fmt"
	"time"

	"github.com/goccl/goccl/primitive"
)

// ContextCreate makes a context of primitives. Zero durations select the defaults; a negative spinLimit means no limit.
func ContextCreate(timeout, spinLimit time.Duration) (Handle, error) {
	var opts []primitive.ContextOption
	if timeout > 0 {
		opts = append(opts, primitive.WithTimeout(timeout))
	}
	if spinLimit != 0 {
		opts = append(opts, primitive.WithSpinLimit(max(spinLimit, 0)))
	}
	return addObject(primitive.NewContext(opts...), nil)
}

// ContextAbort ends every wait of the context on host and device.
func ContextAbort(h Handle, reason string) error {
	return with(h, func(c *primitive.Context) error {
		if reason == "" {
			c.Abort(nil)
		} else {
			c.Abort(fmt.Errorf("%w: %s", primitive.ErrAborted, reason))
		}
		return nil
	})
}

// ContextError returns the reason of the abort, or the error of a kernel that stopped waiting.
func ContextError(h Handle) error { return with(h, (*primitive.Context).Err) }

// ContextRecover makes an aborted context usable again.
func ContextRecover(h Handle) error {
	return with(h, func(c *primitive.Context) error {
		c.Recover()
		return nil
	})
}
