package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/primitive"
)

// ContextCreate makes a context of primitives. Zero durations select the defaults; a negative spinLimit means no limit.
func ContextCreate(timeout, spinLimit time.Duration) (*primitive.Context, error) {
	var opts []primitive.ContextOption
	if timeout > 0 {
		opts = append(opts, primitive.WithTimeout(timeout))
	}
	if spinLimit != 0 {
		opts = append(opts, primitive.WithSpinLimit(max(spinLimit, 0)))
	}
	return primitive.NewContext(opts...), nil
}

// ContextAbort ends every wait of the context on host and device.
func ContextAbort(c *primitive.Context, reason string) error {
	var err error
	if reason != "" {
		err = fmt.Errorf("%w: %s", primitive.ErrAborted, reason)
	}
	c.Abort(err)
	return nil
}

// Future is a primitive.Future of any type. Its value becomes an object with a handle at the first wait.
type Future struct {
	get func(context.Context) (any, error)

	mu     sync.Mutex
	handle Handle // of the value, once known
	failed error
	done   bool
}

var errNotYet = fmt.Errorf("%w: it is not there yet", context.DeadlineExceeded)

// FutureWait waits for the value until ctx ends or the future gives up. It returns the value's handle, the same one
// each time, and 0 when the future has no value. When the timeout passes first, it may be called again.
func FutureWait(ctx context.Context, f *Future) (Handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return f.handle, f.failed
	}
	v, err := f.get(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return 0, errNotYet
	}
	f.done = true
	if err == nil && v != (struct{}{}) {
		f.handle, err = Add(v, nil)
	}
	f.failed = err
	return f.handle, err
}

// Later makes a Future of f.
func Later[T any](f *primitive.Future[T]) *Future {
	return &Future{get: func(ctx context.Context) (any, error) { return f.Get(ctx) }}
}

// CommunicatorCreate makes a communicator of primitives over a bootstrap and a context. The caller keeps both.
func CommunicatorCreate(b *Bootstrap, ctx *primitive.Context) (*primitive.Communicator, error) {
	return primitive.NewCommunicator(b.Bootstrap, ctx), nil
}

// CommunicatorConnect makes an endpoint and connects it with the peer's.
func CommunicatorConnect(c *primitive.Communicator, transport int, d *Device, rank, tag int) (*Future, error) {
	cfg, err := endpointConfig(transport, d)
	if err != nil {
		return nil, err
	}
	return Later(c.Connect(cfg, rank, tag)), nil
}
