package perf

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/buildinfo"
)

// register makes buffers reachable for the peers' plans, which would otherwise work on copies. All ranks call it with as many.
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
		return nil // plans share what is registered
	}
	return nil
}

// registerWindows makes buffers windows of a communicator of goccl, which end with it. All ranks call it with as many of the same sizes.
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

// ours is goccl as a Library, with its own choice of algorithm or with a forced one.
type ours struct {
	algo    string // "": the selection
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

// Open joins a goccl communicator. A forced algorithm travels in the environment, as users set it, so ranks of one process that open
// side by side meet before it is taken back.
func (l *ours) Open(ctx context.Context, peers Peers, dev device.Device) (Communicator, error) {
	boot, ok := peers.(bootstrap.Bootstrap)
	if !ok {
		return nil, fmt.Errorf("perf: goccl needs a Bootstrap to open, not a %T", peers)
	}
	if l.algo != "" {
		before, was := os.LookupEnv("GOCCL_ALGO")
		if err := peers.Barrier(ctx); err != nil {
			return nil, err
		}
		if err := os.Setenv("GOCCL_ALGO", l.kind.String()+":"+l.algo); err != nil {
			return nil, err
		}
		defer func() {
			_ = peers.Barrier(ctx)
			if was {
				_ = os.Setenv("GOCCL_ALGO", before)
			} else {
				_ = os.Unsetenv("GOCCL_ALGO")
			}
			_ = peers.Barrier(ctx)
		}()
		if err := peers.Barrier(ctx); err != nil {
			return nil, err
		}
	}
	c, err := goccl.NewComm(ctx, goccl.Config{Bootstrap: boot, Device: dev, Timeout: l.timeout, OpTimeout: l.timeout, Name: "perf"})
	if err != nil {
		return nil, err
	}
	return c, nil
}
