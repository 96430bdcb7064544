package commtest

import (
	"errors"
	"runtime"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device/cuda"
)

// GPUStream makes a stream on the GPU of c.
func GPUStream(c *goccl.Comm) (*cuda.Stream, error) {
	s, err := c.Device().NewStream()
	if err != nil {
		return nil, err
	}
	return s.(*cuda.Stream), nil
}

// Capture makes a graph of the work that enqueue puts on s.
func Capture(s *cuda.Stream, mode cuda.CaptureMode, enqueue func() error) (*cuda.Exec, error) {
	x, _, err := CaptureNodes(s, mode, enqueue)
	return x, err
}

// CaptureNodes also returns the number of operations in the graph.
func CaptureNodes(s *cuda.Stream, mode cuda.CaptureMode, enqueue func() error) (x *cuda.Exec, nodes int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := s.BeginCapture(mode); err != nil {
		return nil, 0, err
	}
	err = enqueue()
	g, e := s.EndCapture() // also after a failure, or the stream stays in capture mode
	if err = errors.Join(err, e); err != nil {
		return nil, 0, err
	}
	nodes, err = g.Nodes()
	x, e = g.Instantiate()
	return x, nodes, errors.Join(err, e, g.Close())
}
