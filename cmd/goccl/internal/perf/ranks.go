package perf

import (
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

// OpenDevice opens the device of the rank with the given local rank: the GPUs in turn.
func OpenDevice(kind device.Kind, local int) (device.Device, error) {
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

// withRank opens the resources of one rank for f, and closes them and boot. Work on the host device runs in the rank's
// own goroutine, on a synchronous stream.
func withRank(boot bootstrap.Bootstrap, at place, f func(r Rank) error) (err error) {
	defer func() { err = errors.Join(err, boot.Close()) }()
	fail := func(err error) error { return fmt.Errorf("perf: rank %d: %w", boot.Rank(), err) }
	dev, err := OpenDevice(at.kind, at.local)
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	r := Rank{Peers: boot, Device: dev}
	if at.kind == device.Host {
		r.Stream, err = dev.WrapStream(0)
	} else {
		r.Stream, err = dev.NewStream()
		r.Capture = Capture
	}
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, r.Stream.Close()) }()
	count, err := gpus(at.kind)
	if err != nil {
		return err
	}
	r.Limits = LimitsOf(dev, runtime.NumCPU(), at.localSize <= count)
	r.Crowded = at.layout == LayoutProcesses && at.kind == device.Host && at.localSize > runtime.GOMAXPROCS(0)
	return f(r)
}
