package perf

import (
	"context"
	"fmt"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/job/bootstrap"
)

// Peers is the communication among the ranks of a measurement. Every bootstrap.Bootstrap implements it.
type Peers interface {
	Rank() int
	WorldSize() int
	AllGather(ctx context.Context, data []byte) ([][]byte, error)
	Barrier(ctx context.Context) error
}

// Communicator is one rank of a library under measurement.
type Communicator interface {
	// Submit enqueues the requests, as one group when there are several, on the stream that each names.
	Submit(requests ...collective.Request) error
	// Synchronize waits until the stream's work is done, and returns the first failure of the communicator.
	Synchronize(ctx context.Context, s device.Stream) error
	// Close frees the communicator's resources. Enqueued work has ended.
	Close() error
}

// Library makes communicators. Its name labels the columns and the rows of the record.
type Library interface {
	Name() string
	// Version is the version that the library reports.
	Version() string
	// Open joins the communicator of all peers on dev. All ranks call it together.
	Open(ctx context.Context, peers Peers, dev device.Device) (Communicator, error)
}

// Graph is a captured sequence of operations.
type Graph interface {
	Launch(s device.Stream) error
	Close() error
}

// register lets plans of peers access buffers directly; without it they work on copies. All ranks call it with the same
// number of buffers.
func register(ctx context.Context, c Communicator, buffers ...device.Ptr) error {
	comm, ok := c.(*goccl.Comm)
	if !ok {
		return nil
	}
	for _, a := range comm.Algorithms() {
		r, ok := a.(interface {
			Register(ctx context.Context, p device.Ptr) error
		})
		if !ok {
			continue
		}
		for _, p := range buffers {
			if err := r.Register(ctx, p); err != nil {
				return err
			}
		}
		return nil // plans share registered memory
	}
	return nil
}

// registerWindows makes buffers windows of a goccl communicator, which end with it. All ranks call it with the same
// number and sizes.
func registerWindows(c Communicator, buffers ...device.Allocation) error {
	comm, ok := c.(*goccl.Comm)
	if !ok {
		return nil
	}
	for _, b := range buffers {
		if _, err := comm.RegisterWindow(b.Ptr(), b.Size()); err != nil {
			return err
		}
	}
	return nil
}

// ours implements Library with goccl, with its own choice of algorithm or a forced one.
type ours struct {
	algo    string // "": goccl chooses
	kind    Kind
	timeout time.Duration
}

func (l *ours) Name() string {
	if l.algo != "" {
		return "goccl:" + l.algo
	}
	return "goccl"
}

func (l *ours) Version() string { return buildinfo.Read().Version }

// Open joins a goccl communicator.
func (l *ours) Open(ctx context.Context, peers Peers, dev device.Device) (Communicator, error) {
	boot, ok := peers.(bootstrap.Bootstrap)
	if !ok {
		return nil, fmt.Errorf("perf: goccl needs a Bootstrap to open, not a %T", peers)
	}
	cfg := goccl.Config{Bootstrap: boot, Device: dev, Timeout: l.timeout, OpTimeout: l.timeout, Name: "perf"}
	if l.algo != "" {
		cfg.Algorithms = l.kind.String() + ":" + l.algo
	}
	c, err := goccl.NewComm(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return c, nil
}

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
