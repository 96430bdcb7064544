package perf

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
)

// ParseDevice parses the kind of device: "host", "cuda", or "auto", which is CUDA if a GPU is usable.
func ParseDevice(s string) (device.Kind, error) {
	switch s {
	case "host":
		return device.Host, nil
	case "cuda":
		if err := cuda.Available(); err != nil {
			return 0, fmt.Errorf("perf: --device cuda: %w", err)
		}
		return device.CUDA, nil
	case "", "auto":
		if cuda.Available() == nil {
			if n, err := cuda.Count(); err == nil && n > 0 {
				return device.CUDA, nil
			}
		}
		return device.Host, nil
	}
	return 0, invalid("unknown device %q: use auto, host or cuda", s)
}

// gpus returns the number of GPUs that ranks of kind can use; 0 for the host.
func gpus(kind device.Kind) (int, error) {
	if kind != device.CUDA {
		return 0, nil
	}
	return cuda.Count()
}

// openDevice opens the device of the rank with the given local rank.
func openDevice(kind device.Kind, local int) (device.Device, error) {
	if kind == device.Host {
		return host.Open(local)
	}
	n, err := cuda.Count()
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: no GPU is visible", device.ErrNoDevice)
	}
	return cuda.Open(local % n)
}

// rankOf opens the resources of one rank. Work on the host device runs in the rank's own goroutine, on a synchronous
// stream.
func rankOf(boot bootstrap.Bootstrap, kind device.Kind, local, localSize int, libraries []Library) (r Rank,
	closer func() error, err error) {
	dev, err := openDevice(kind, local)
	if err != nil {
		return Rank{}, nil, fmt.Errorf("perf: rank %d: %w", boot.Rank(), err)
	}
	var s device.Stream
	if kind == device.Host {
		s, err = dev.WrapStream(0)
	} else {
		s, err = dev.NewStream()
	}
	if err != nil {
		return Rank{}, nil, errors.Join(fmt.Errorf("perf: rank %d: %w", boot.Rank(), err), dev.Close())
	}
	count, err := gpus(kind)
	if err != nil {
		return Rank{}, nil, errors.Join(err, dev.Close())
	}
	r = Rank{Peers: boot, Device: dev, Stream: s, Libraries: libraries,
		Limits: LimitsOf(dev, runtime.NumCPU(), localSize <= count)}
	if kind == device.CUDA {
		r.Capturer = cudaCapturer{}
	}
	return r, func() error { return errors.Join(s.Close(), dev.Close()) }, nil
}

// ranksAsThreads runs n ranks as goroutines of this process. When one fails, the context of the others is cancelled; it
// returns the first error.
func ranksAsThreads(ctx context.Context, n int,
	rank func(ctx context.Context, boot bootstrap.Bootstrap, i int) error) error {
	boots := bootstrap.NewLocalGroup(n)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, n)
	for i := range n {
		go func() { done <- rank(ctx, boots[i], i) }()
	}
	var first error
	for range n {
		// A rank that fails unblocks the others: its bootstrap is closed, and the context is cancelled.
		if err := <-done; err != nil && first == nil {
			first = err
			cancel(err)
		}
	}
	return first
}

// measureThreads runs n ranks as goroutines of this process and returns the rows of rank 0.
func measureThreads(ctx context.Context, cfg Config, n int, kind device.Kind, libraries []Library, reporter Reporter,
	about func(Rank)) (rows []Row, err error) {
	err = ranksAsThreads(ctx, n, func(ctx context.Context, boot bootstrap.Bootstrap, i int) error {
		mine, err := measureOne(ctx, cfg, boot, kind, i, n, false, libraries, reporter, about)
		if i == 0 {
			rows = mine
		}
		return err
	})
	return rows, err
}

// measureOne runs one rank from its device to its rows. It closes boot.
func measureOne(ctx context.Context, cfg Config, boot bootstrap.Bootstrap, kind device.Kind, local, localSize int,
	processes bool, libraries []Library, reporter Reporter, about func(Rank)) (rows []Row, err error) {
	defer func() { err = errors.Join(err, boot.Close()) }()
	r, closer, err := rankOf(boot, kind, local, localSize, libraries)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closer()) }()
	r.Crowded = crowded(processes, kind, localSize)
	if boot.Rank() == 0 {
		r.Reporter = reporter
		if about != nil {
			about(r)
		}
	}
	return Measure(ctx, cfg, r)
}
