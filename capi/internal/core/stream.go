package core

import (
	"github.com/goccl/goccl/device"
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
