package perf

import (
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// Capture captures what enqueue does on a CUDA stream.
func Capture(s device.Stream, enqueue func() error) (Graph, error) {
	stream, ok := s.(*cuda.Stream)
	if !ok {
		return nil, fmt.Errorf("perf: cannot capture a %T", s)
	}
	exec, err := stream.Capture(enqueue)
	if err != nil {
		return nil, err
	}
	return cudaGraph{exec}, nil
}

type cudaGraph struct{ *cuda.Exec }

func (g cudaGraph) Launch(s device.Stream) error { return g.Exec.Launch(s.(*cuda.Stream)) }
