package perf

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// cudaCapturer captures CUDA streams.
type cudaCapturer struct{}

type cudaGraph struct{ exec *cuda.Exec }

func (cudaCapturer) Capture(s device.Stream, enqueue func() error) (g Graph, err error) {
	stream, ok := s.(*cuda.Stream)
	if !ok {
		return nil, fmt.Errorf("perf: cannot capture a %T", s)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := stream.BeginCapture(cuda.CaptureThreadLocal); err != nil {
		return nil, err
	}
	err = enqueue()
	captured, e := stream.EndCapture() // also after a failure, or the stream stays in capture mode
	if err = errors.Join(err, e); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, captured.Close()) }()
	exec, err := captured.Instantiate()
	if err != nil {
		return nil, err
	}
	if err := exec.Upload(stream); err != nil {
		return nil, errors.Join(err, exec.Close())
	}
	return &cudaGraph{exec}, nil
}

func (g *cudaGraph) Launch(s device.Stream) error { return g.exec.Launch(s.(*cuda.Stream)) }
func (g *cudaGraph) Close() error                 { return g.exec.Close() }
