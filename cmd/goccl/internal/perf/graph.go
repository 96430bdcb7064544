package perf

import (
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// cudaCapturer captures CUDA streams.
type cudaCapturer struct{}

type cudaGraph struct{ exec *cuda.Exec }

func (cudaCapturer) Capture(s device.Stream, enqueue func() error) (Graph, error) {
	stream, ok := s.(*cuda.Stream)
	if !ok {
		return nil, fmt.Errorf("perf: cannot capture a %T", s)
	}
	exec, err := stream.Capture(enqueue)
	if err != nil {
		return nil, err
	}
	return &cudaGraph{exec}, nil
}

func (g *cudaGraph) Launch(s device.Stream) error { return g.exec.Launch(s.(*cuda.Stream)) }
func (g *cudaGraph) Close() error                 { return g.exec.Close() }
