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

var errNotYet = fmt.Errorf("%w: it is not there yet", context.DeadlineExceeded)

// FutureWait waits at most timeout (0: as long as the future itself) for the value and returns its handle, the same one
// each time. It returns 0 when the future has no value. When the timeout passes first, it may be called again.
func FutureWait(h Handle, timeout time.Duration) (Handle, error) {
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

// CommunicatorCreate makes a communicator of primitives over a bootstrap and a context. The caller keeps both.
func CommunicatorCreate(boot, ctx Handle) (Handle, error) {
	var a args
	b, c := a.bootstrap(boot), arg[*primitive.Context](&a, ctx)
	return create(&a, func() (*primitive.Communicator, error) { return primitive.NewCommunicator(b.Bootstrap, c), nil })
}

// later is create for the value of a future.
func later[T any](a *args, f func() *primitive.Future[T]) (Handle, error) {
	return create(a, func() (*future, error) {
		v := f()
		return &future{get: func(ctx context.Context) (any, error) { return v.Get(ctx) }}, nil
	})
}

// CommunicatorConnect makes an endpoint and connects it with the peer's.
func CommunicatorConnect(comm Handle, transport int, dev Handle, rank, tag int) (Handle, error) {
	var a args
	c, cfg := arg[*primitive.Communicator](&a, comm), a.endpoint(transport, dev)
	return later(&a, func() *primitive.Future[*primitive.Connection] { return c.Connect(cfg, rank, tag) })
}

// CommunicatorConnectEndpoint connects a given endpoint with the peer's.
func CommunicatorConnectEndpoint(comm, endpoint Handle, rank, tag int) (Handle, error) {
	var a args
	c, e := arg[*primitive.Communicator](&a, comm), arg[*primitive.Endpoint](&a, endpoint)
	return later(&a, func() *primitive.Future[*primitive.Connection] { return c.ConnectEndpoint(e, rank, tag) })
}

// CommunicatorSendMemory makes local memory available to the peer.
func CommunicatorSendMemory(comm, mem Handle, rank, tag int) (Handle, error) {
	var a args
	c, m := arg[*primitive.Communicator](&a, comm), arg[*primitive.RegisteredMemory](&a, mem)
	return later(&a, func() *primitive.Future[struct{}] { return c.SendMemory(m, rank, tag) })
}

// CommunicatorRecvMemory returns the memory that the peer sends.
func CommunicatorRecvMemory(comm Handle, rank, tag int) (Handle, error) {
	var a args
	c := arg[*primitive.Communicator](&a, comm)
	return later(&a, func() *primitive.Future[*primitive.RegisteredMemory] { return c.RecvMemory(rank, tag) })
}

// CommunicatorBuildSemaphore makes a semaphore over a connection together with the peer.
func CommunicatorBuildSemaphore(comm, conn Handle, rank, tag int) (Handle, error) {
	var a args
	c, n := arg[*primitive.Communicator](&a, comm), arg[*primitive.Connection](&a, conn)
	return later(&a, func() *primitive.Future[*primitive.Semaphore] { return c.BuildSemaphore(n, rank, tag) })
}
