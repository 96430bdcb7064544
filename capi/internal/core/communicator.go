package core

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/primitive"
)

// future is a primitive.Future of any type. Its value becomes an object with a handle at the first wait.
type future struct {
	get func(context.Context) (any, error)

	mu     sync.Mutex
	handle Handle // of the value, once known
	failed error
	done   bool
}

func addFuture[T any](f *primitive.Future[T]) (Handle, error) {
	return addObject(&future{get: func(ctx context.Context) (any, error) { return f.Get(ctx) }}, nil)
}

var errNotYet = fmt.Errorf("%w: it is not there yet", context.DeadlineExceeded)

// WaitFuture waits at most timeout (0: as long as the future itself) for the value and returns its handle, the same one
// each time. It returns 0 when the future has no value. When the timeout passes first, it may be called again.
func WaitFuture(h Handle, timeout time.Duration) (Handle, error) {
	f, err := objectOf[*future](h)
	if err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return f.handle, f.failed
	}
	ctx, cancel := stepContext(timeout)
	defer cancel()
	v, err := f.get(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return 0, errNotYet
	}
	f.done = true
	if err == nil && v != (struct{}{}) {
		f.handle, err = addObject(v, nil)
	}
	f.failed = err
	return f.handle, err
}

// NewCommunicator makes a communicator of primitives over a bootstrap and a context. The caller keeps both.
func NewCommunicator(boot, ctx Handle) (Handle, error) {
	b, err := bootstraps.get(boot)
	if err != nil {
		return 0, err
	}
	c, err := objectOf[*primitive.Context](ctx)
	if err != nil {
		return 0, err
	}
	return addObject(primitive.NewCommunicator(b.Bootstrap, c), nil)
}

// Connect makes an endpoint and connects it with the peer's.
func Connect(comm Handle, transport int, dev Handle, rank, tag int) (Handle, error) {
	c, err := objectOf[*primitive.Communicator](comm)
	if err != nil {
		return 0, err
	}
	cfg, err := endpointConfig(transport, dev)
	if err != nil {
		return 0, err
	}
	return addFuture(c.Connect(cfg, rank, tag))
}

// ConnectEndpoint connects a given endpoint with the peer's.
func ConnectEndpoint(comm, endpoint Handle, rank, tag int) (Handle, error) {
	c, err := objectOf[*primitive.Communicator](comm)
	if err != nil {
		return 0, err
	}
	e, err := objectOf[*primitive.Endpoint](endpoint)
	if err != nil {
		return 0, err
	}
	return addFuture(c.ConnectEndpoint(e, rank, tag))
}

// SendMemory makes local memory available to the peer.
func SendMemory(comm, mem Handle, rank, tag int) (Handle, error) {
	c, err := objectOf[*primitive.Communicator](comm)
	if err != nil {
		return 0, err
	}
	m, err := objectOf[*primitive.RegisteredMemory](mem)
	if err != nil {
		return 0, err
	}
	return addFuture(c.SendMemory(m, rank, tag))
}

// RecvMemory returns the memory that the peer sends.
func RecvMemory(comm Handle, rank, tag int) (Handle, error) {
	c, err := objectOf[*primitive.Communicator](comm)
	if err != nil {
		return 0, err
	}
	return addFuture(c.RecvMemory(rank, tag))
}

// BuildSemaphore makes a semaphore over a connection together with the peer.
func BuildSemaphore(comm, conn Handle, rank, tag int) (Handle, error) {
	c, err := objectOf[*primitive.Communicator](comm)
	if err != nil {
		return 0, err
	}
	n, err := objectOf[*primitive.Connection](conn)
	if err != nil {
		return 0, err
	}
	return addFuture(c.BuildSemaphore(n, rank, tag))
}
