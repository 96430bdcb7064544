package tutorial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/primitive"
)

// Kernel is one kernel in its two forms. Both return 0 or the reason why a wait ended early.
type Kernel struct {
	Name            string
	Blocks, Threads int
	// Args adds the CUDA kernel's parameters; the kernel writes its status at status.
	Args func(a *cuda.Args, status device.Ptr)
	// Host is the kernel for the host device: it runs once for each of HostBlocks blocks (0: one).
	Host       func(b *host.Block) primitive.Status
	HostBlocks int
}

// Running is kernels that were launched. A device has one at a time: Wait comes before the next launch.
type Running struct {
	d     *Device
	name  string
	start device.Event
	stop  device.Event
}

// statusError is a kernel's status as a stream's error.
type statusError struct{ primitive.Status }

func (e statusError) Error() string { return e.Status.String() }
func (e statusError) Unwrap() error { return e.Status.Err() }

// Launch enqueues a kernel.
func (d *Device) Launch(k Kernel) (*Running, error) {
	return d.LaunchAll(1, func(int) Kernel { return k })
}

// LaunchAll enqueues n kernels in a row and waits for none of them, so that nothing of the processor's is in the time
// between them. On a GPU several kernels are one CUDA graph.
func (d *Device) LaunchAll(n int, kernel func(i int) Kernel) (*Running, error) {
	if n < 1 {
		return nil, fmt.Errorf("tutorial: %d kernels: launch at least 1", n)
	}
	if d.IsHost() {
		return d.timed(kernel(0).Name, func() error { return each(n, kernel, d.launchHost) })
	}
	if err := d.status.Clear(d, n); err != nil {
		return nil, err
	}
	if n == 1 {
		return d.timed(kernel(0).Name, func() error { return each(n, kernel, d.launchGPU) })
	}
	s, ok := d.Stream.(*cuda.Stream)
	if !ok {
		return nil, fmt.Errorf("tutorial: a %T captures no graph", d.Stream)
	}
	x, err := d.capture(s, n, kernel)
	if err != nil {
		return nil, err
	}
	r, err := d.timed(kernel(0).Name, func() error { return x.Launch(s) })
	return r, errors.Join(err, x.Close())
}

// timed enqueues what launch does between two events.
func (d *Device) timed(name string, launch func() error) (*Running, error) {
	r := &Running{d: d, name: name}
	var err error
	if r.start, err = d.Stream.Record(); err != nil {
		return nil, err
	}
	if err := launch(); err != nil {
		return nil, err
	}
	r.stop, err = d.Stream.Record()
	return r, err
}

// each launches n kernels.
func each(n int, kernel func(i int) Kernel, launch func(i int, k *Kernel) error) error {
	for i := range n {
		k := kernel(i)
		if err := launch(i, &k); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) launchHost(_ int, k *Kernel) error {
	s, ok := d.Stream.(*host.Stream)
	if !ok {
		return fmt.Errorf("tutorial: a %T runs no Go kernels", d.Stream)
	}
	run := k.Host
	return s.Launch(k.Name, max(1, k.HostBlocks), func(b *host.Block) error {
		if st := run(b); st != primitive.StatusOK {
			return statusError{st}
		}
		return nil
	})
}

// launchGPU enqueues kernel i of those whose status words were cleared.
func (d *Device) launchGPU(i int, k *Kernel) error {
	f, err := d.module.Function(k.Name)
	if err != nil {
		return err
	}
	s, ok := d.Stream.(*cuda.Stream)
	if !ok {
		return fmt.Errorf("tutorial: a %T runs no CUDA kernels", d.Stream)
	}
	var a cuda.Args
	k.Args(&a, d.status.Word(i))
	return s.Launch(f, cuda.Launch1D(max(1, k.Blocks), max(1, k.Threads), 0), &a)
}

// capture returns n kernels as a graph that is ready to launch.
func (d *Device) capture(s *cuda.Stream, n int, kernel func(i int) Kernel) (*cuda.Exec, error) {
	if err := s.BeginCapture(cuda.CaptureRelaxed); err != nil {
		return nil, err
	}
	failed := each(n, kernel, d.launchGPU)
	g, err := s.EndCapture() // also after a failure: it gives the stream back
	if err = errors.Join(failed, err); err != nil {
		return nil, err
	}
	x, err := g.Instantiate()
	if err == nil {
		err = x.Upload(s)
	}
	return x, errors.Join(err, g.Close())
}

// Wait waits for the kernels and returns how long they took together. why explains a status (Context.Err).
func (r *Running) Wait(timeout time.Duration, why func() error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	explain := func(err error) error {
		if w := why(); w != nil {
			return fmt.Errorf("%s on %s: %w", r.name, r.d.ID(), w)
		}
		return fmt.Errorf("%s on %s: %w", r.name, r.d.ID(), err)
	}
	if err := r.d.Stream.Synchronize(ctx); err != nil {
		return 0, explain(err)
	}
	s, err := r.d.status.First(r.d)
	if err != nil {
		return 0, err
	}
	if s != primitive.StatusOK {
		return 0, explain(s.Err())
	}
	sec, err := r.stop.Since(r.start)
	return time.Duration(sec * float64(time.Second)), errors.Join(err, r.start.Close(), r.stop.Close())
}
