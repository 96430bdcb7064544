package core

import (
	"context"
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// stream returns the wrapper of a raw stream, made once per communicator. When a CUstream is destroyed and its address
// is used again, the wrapper is reused; it holds only the address.
func (c *comm) stream(raw uintptr) (device.Stream, error) {
	if l := c.lastStream.Load(); l != nil && l.raw == raw {
		return l.stream, nil
	}
	c.streamMu.Lock()
	defer c.streamMu.Unlock()
	w := c.streams[raw]
	if w == nil {
		s, err := c.dev.Device.WrapStream(raw)
		if err != nil {
			return nil, err
		}
		w = &wrapped{raw, s}
		if c.streams == nil {
			c.streams = map[uintptr]*wrapped{}
		}
		c.streams[raw] = w
	}
	c.lastStream.Store(w)
	return w.stream, nil
}

// renewDefaultStream forgets stream 0, which on the host device has failed if its work has.
func (c *comm) renewDefaultStream() {
	c.streamMu.Lock()
	defer c.streamMu.Unlock()
	delete(c.streams, 0)
	c.lastStream.Store(nil)
}

type wrapped struct {
	raw    uintptr
	stream device.Stream
}

func (c *comm) forgetStream(raw uintptr) {
	c.streamMu.Lock()
	defer c.streamMu.Unlock()
	delete(c.streams, raw)
	c.lastStream.Store(nil)
}

// notifyLimit bounds how long Notify follows work that does not end; f is called then.
const notifyLimit = 10 * time.Minute

// Notify calls f, on another goroutine, when the work that is on a stream now has ended.
func Notify(h Handle, raw uintptr, f func()) error {
	c, err := comms.get(h)
	if err != nil {
		return err
	}
	s, err := c.stream(raw)
	if err != nil {
		return err
	}
	if g, ok := s.(*cuda.Stream); ok {
		status, _, err := g.CaptureStatus()
		if err != nil {
			return err
		}
		if status != cuda.CaptureNone {
			return fmt.Errorf("%w: the stream is being captured", ErrInvalidUsage)
		}
	}
	e, err := s.Record()
	if err != nil {
		return err
	}
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), notifyLimit)
		defer stop()
		_ = e.Wait(ctx) // an error of the stream ends the work, too
		_ = e.Close()
		f()
	}()
	return nil
}
