package ipc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
)

// WordStream is a stream that stores a uint64 in order with its copies and without a kernel (cuStreamWriteValue64 on
// CUDA). addr may be device memory, a peer's mapped memory, or pinned host memory. The store follows the effects of all
// earlier work of the stream.
type WordStream interface {
	device.Stream
	WriteValue64(addr device.Ptr, value uint64) error
}

// Adder adds to a word in order with the stream's work; it requires a kernel.
type Adder interface {
	Add(s device.Stream, addr device.Ptr, delta uint64) error
}

// StreamLink moves bytes by copies on a stream.
//
// A signal stores its number in the counter's second word, which has no other writer. That needs no kernel; a kernel
// could not start while others that wait for this very signal occupy the whole GPU.
type StreamLink struct {
	stream WordStream
	adder  Adder

	mu     sync.Mutex // orders the operations of several goroutines
	closed bool
	err    error // the first failure; the stream's state is unknown after it
}

// NewStreamLink makes a link over a stream, which the caller owns. adder may be nil: then Add fails.
func NewStreamLink(s WordStream, adder Adder) *StreamLink {
	return &StreamLink{stream: s, adder: adder}
}

// do runs one operation under the lock and keeps the first failure.
func (l *StreamLink) do(what string, f func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return transport.ErrClosed
	}
	if l.err != nil {
		return l.err
	}
	if err := f(); err != nil {
		l.err = fmt.Errorf("ipc: %s on %s: %w", what, l.stream.Device().ID(), err)
	}
	return l.err
}

func mapped(r transport.Remote) error {
	if r.Ptr == 0 {
		return fmt.Errorf("ipc: %w: it is not mapped here", transport.ErrNotReachable)
	}
	return nil
}

// Write enqueues a copy.
func (l *StreamLink) Write(dst transport.Remote, src device.Ptr, n int64) error {
	if err := mapped(dst); err != nil || n == 0 {
		return err
	}
	return l.do("copy", func() error { return l.stream.Copy(dst.Ptr, src, n) })
}

// Add enqueues an atomic addition by a kernel of one thread.
func (l *StreamLink) Add(dst transport.Remote, delta uint64) error {
	if err := mapped(dst); err != nil {
		return err
	}
	if l.adder == nil {
		return fmt.Errorf("ipc: atomic add on %s: %w", l.stream.Device().ID(), device.ErrUnsupported)
	}
	return l.do("atomic add", func() error { return l.adder.Add(l.stream, dst.Ptr, delta) })
}

// Store enqueues a store.
func (l *StreamLink) Store(dst transport.Remote, value uint64) error {
	if err := mapped(dst); err != nil {
		return err
	}
	return l.do("store", func() error { return l.stream.WriteValue64(dst.Ptr, value) })
}

// Signal enqueues the store of the total.
func (l *StreamLink) Signal(dst transport.Remote, total uint64) error {
	return l.Store(dst.Add(transport.TokenStoredOffset), total)
}

// Mark enqueues the store of the word.
func (l *StreamLink) Mark(word device.Ptr, value uint64) error {
	return l.do("mark", func() error { return l.stream.WriteValue64(word, value) })
}

// Flush waits for an event after all earlier work.
func (l *StreamLink) Flush(ctx context.Context) error {
	var e device.Event
	err := l.do("record", func() (err error) {
		e, err = l.stream.Record()
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(e.Wait(ctx), e.Close())
}

// Err returns the first failure.
func (l *StreamLink) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return transport.ErrClosed
	}
	return l.err
}

// Close rejects further operations; enqueued ones still run.
func (l *StreamLink) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

var _ transport.Link = (*StreamLink)(nil)
