package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// closeWait bounds how long Close of a Device waits for the streams it made. Tests shorten it.
var closeWait = 10 * time.Second

// Available returns nil if this process can use at least one GPU. Otherwise the error names the missing part and wraps
// device.ErrNoDevice.
func Available() error {
	if err := driver.Load(); err != nil {
		return fmt.Errorf("%w: %w", device.ErrNoDevice, err)
	}
	n, err := driver.DeviceCount()
	if err != nil {
		return fmt.Errorf("%w: %w", device.ErrNoDevice, err)
	}
	if n == 0 {
		return fmt.Errorf("%w: the driver is there, but this process sees no GPU: check CUDA_VISIBLE_DEVICES",
			device.ErrNoDevice)
	}
	return nil
}

// Count is the number of GPUs visible to this process.
func Count() (int, error) {
	if err := Available(); err != nil {
		return 0, err
	}
	return driver.DeviceCount()
}

// Current is the ordinal of the GPU whose context is current on the calling thread. The goroutine must be locked to the
// thread, as it is in a call from C. ok is false if the thread has no context.
func Current() (ordinal int, ok bool, err error) {
	if err := Available(); err != nil {
		return 0, false, err
	}
	ordinal, ok, err = driver.CurrentDevice()
	return ordinal, ok, fail(ordinal, "current device", err)
}

// CanAccessPeer reports whether kernels on GPU from can access memory of GPU to.
func CanAccessPeer(from, to int) (bool, error) {
	if err := Available(); err != nil {
		return false, err
	}
	ok, err := driver.CanAccessPeer(from, to)
	return ok, fail(from, "query peer access", err)
}

// Device is an open GPU. It implements device.Device.
type Device struct {
	gpu *gpu
	use use

	mu     sync.Mutex
	live   map[object]struct{} // open objects made from this Device
	closed bool
}

// object is a stream, an allocation or another thing that a Device has made. destroy ends it, once.
type object interface {
	Close() error
	destroy() error
}

var _ device.Device = (*Device)(nil)

// Open opens the GPU with an ordinal (in the numbering of CUDA_VISIBLE_DEVICES). The GPUs that one process has open can
// access each other's memory.
func Open(ordinal int) (*Device, error) {
	g, err := acquire(ordinal)
	if err != nil {
		return nil, err
	}
	return &Device{gpu: g, live: map[object]struct{}{}}, nil
}

// ID is {CUDA, ordinal}.
func (d *Device) ID() device.ID { return device.ID{Kind: device.CUDA, Index: d.gpu.ordinal} }

// Name is the product name.
func (d *Device) Name() string { return d.gpu.props.Name }

// Properties are the GPU's properties, read when it was opened.
func (d *Device) Properties() Properties { return d.gpu.props }

// Context is the primary context, for other C code (see internal/driver).
func (d *Device) Context() uintptr { return uintptr(d.gpu.ctx) }

// MemoryInfo returns the free and the total memory in bytes.
func (d *Device) MemoryInfo() (free, total int64, err error) {
	free, total, err = d.gpu.ctx.MemInfo()
	return free, total, fail(d.gpu.ordinal, "memory info", err)
}

// add registers c, so that Close of the Device closes it. It fails if the Device is closed.
func (d *Device) add(c object) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return &Error{Op: "use", Device: d.ID(), Err: device.ErrClosed}
	}
	d.live[c] = struct{}{}
	return nil
}

// made registers x, which a call of the driver has made, or destroys it if the device is closed. err is the error of
// that call.
func made[T object](d *Device, op string, x T, err error) (none T, _ error) {
	if err != nil {
		return none, fail(d.gpu.ordinal, op, err)
	}
	if err := d.add(x); err != nil {
		_ = x.destroy()
		return none, err
	}
	return x, nil
}

// drop unregisters c and reports whether it was still open: exactly one caller gets true.
func (d *Device) drop(c object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.live[c]
	delete(d.live, c)
	return ok
}

// end is Close of an object.
func (d *Device) end(c object, op string) error {
	if !d.drop(c) {
		return nil
	}
	return fail(d.gpu.ordinal, op, c.destroy())
}

// open returns nil until Close.
func (d *Device) open() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return &Error{Op: "use", Device: d.ID(), Err: device.ErrClosed}
	}
	return nil
}

// CopyIn copies Go memory to the device. It is not ordered with any stream.
func (d *Device) CopyIn(dst device.Ptr, src []byte) error {
	if err := d.open(); err != nil {
		return err
	}
	return failAt(d.gpu.ordinal, "copy in", dst, d.gpu.ctx.CopyIn(driver.Ptr(dst), src, d.gpu.setup))
}

// CopyOut copies device memory to Go memory. It is not ordered with any stream: synchronize the stream that writes src
// first.
func (d *Device) CopyOut(dst []byte, src device.Ptr) error {
	if err := d.open(); err != nil {
		return err
	}
	return failAt(d.gpu.ordinal, "copy out", src, d.gpu.ctx.CopyOut(dst, driver.Ptr(src), d.gpu.setup))
}

// Close waits up to 10 s for the streams made from d, then frees everything made from it. If a stream is still busy, it
// frees nothing and returns an error; Close may then be called again.
func (d *Device) Close() error {
	// 1. Accept nothing new. 2. Drain the streams, so that no kernel uses the memory freed next. 3. Free all objects
	// except streams, then the streams. 4. Release the context.
	d.mu.Lock()
	if d.closed && d.live == nil {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	var streams, rest []object
	for c := range d.live {
		if _, ok := c.(*Stream); ok {
			streams = append(streams, c)
		} else {
			rest = append(rest, c)
		}
	}
	d.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	for _, s := range streams {
		if err := s.(*Stream).Synchronize(ctx); errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf(
				"%s: close: a stream is still busy after %v, its memory stays: abort its kernels and close again: %w", d.ID(),
				closeWait, err)
		}
	}
	err := device.CloseAll(append(rest, streams...)...)
	d.mu.Lock()
	last := d.live != nil
	d.live = nil
	d.mu.Unlock()
	if last {
		err = errors.Join(err, d.gpu.release())
	}
	return err
}
