package hosts

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// HostOrder is the Order of the host device.
type HostOrder struct{ order host.Order }

// Enter implements Order.
func (o *HostOrder) Enter(s device.Stream) error {
	if hs, ok := s.(*host.Stream); ok {
		return o.order.Enter(hs)
	}
	return nil
}

// Leave implements Order: what Enter returned is the end of the work on that stream.
func (o *HostOrder) Leave(device.Stream) error { return nil }

// Forks implements Order: the host device has no captures.
func (o *HostOrder) Forks(_, _ device.Stream) (bool, error) { return true, nil }

// Wait implements Order. The engine drains its parts, and enqueues nothing else.
func (o *HostOrder) Wait(context.Context) error { return nil }

// Close implements Order.
func (o *HostOrder) Close() error { return nil }

// copy enqueues a copy. On the host device it fails the engine if a buffer is not mapped, as local requests and phases
// do: a stream would only skip what follows, and peers would wait.
func (e *Engine) copy(s device.Stream, op wire.Op, c copying) error {
	hs, ok := s.(*host.Stream)
	if !ok {
		return s.Copy(c.dst, c.src, c.bytes)
	}
	return hs.Launch(op.Name, 1, func(*host.Block) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &collective.Error{Comm: e.name, Op: op.Name, Rank: e.rank, Peer: -1, Seq: op.Seq,
					Err: fmt.Errorf("%w: the operation panicked: %w", collective.ErrAborted,
						&host.PanicError{Value: p, Stack: debug.Stack()})}
				e.fail(err)
			}
		}()
		copy(device.Bytes(c.dst, c.bytes), device.Bytes(c.src, c.bytes))
		return nil
	})
}
