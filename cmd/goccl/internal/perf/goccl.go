package perf

import (
	"context"
	"fmt"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/job/bootstrap"
)

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
