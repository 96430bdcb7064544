package host

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/device"
)

// Device is one host device. Devices with different indices share the machine's memory and cores. The index only
// distinguishes them, so that a test can have any number of "GPUs".
type Device struct {
	index int
	abort atomic.Uint32 // AbortClosed once Close has begun

	// state counts the running operations that may access memory; Close adds closedBit when it begins. Both are in one
	// word, so that begin and end cost one atomic addition each.
	state   atomic.Int64
	closing chan struct{} // closed when Close begins
	quiet   chan struct{} // closed when the device is closed and nothing runs any more
	once    sync.Once     // closes quiet

	mu          sync.Mutex
	allocations map[io.Closer]struct{} // and reservations
}

const closedBit = 1 << 62

var _ device.Device = (*Device)(nil)

// AbortClosed is the abort word's value after Device.Close.
const AbortClosed = 1

// Open makes the host device with an index of at least 0. Each call makes a separate Device.
func Open(index int) (*Device, error) {
	if index < 0 {
		return nil, fmt.Errorf("host: open device %d: %w: numbers begin at 0", index, device.ErrNoDevice)
	}
	return &Device{index: index, allocations: map[io.Closer]struct{}{}, quiet: make(chan struct{}),
		closing: make(chan struct{})}, nil
}

// ID returns host:index.
func (d *Device) ID() device.ID { return device.ID{Kind: device.Host, Index: d.index} }

// Name returns "host".
func (d *Device) Name() string { return "host" }

// Abort returns the word that becomes AbortClosed when the device closes; kernels see it as Block.Abort.
func (d *Device) Abort() *atomic.Uint32 { return &d.abort }

func (d *Device) check(what string) error {
	if d.isClosed() {
		return fmt.Errorf("host: %s on %s: %w", what, d.ID(), device.ErrClosed)
	}
	return nil
}

func (d *Device) isClosed() bool { return d.state.Load()&closedBit != 0 }

// adopt makes m an allocation of d and takes over the caller's reference. It checks and inserts under one lock, so that
// free, which runs after closedBit is set, misses nothing.
func (d *Device) adopt(m *mapping, size int64) (device.Allocation, error) {
	a := &Allocation{dev: d, m: m, size: size}
	if err := d.keep(a); err != nil {
		return nil, errors.Join(err, m.release())
	}
	return a, nil
}

// keep makes d's Close close a.
func (d *Device) keep(a io.Closer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.isClosed() {
		return fmt.Errorf("host: %s: %w", d.ID(), device.ErrClosed)
	}
	d.allocations[a] = struct{}{}
	return nil
}

func (d *Device) forget(a io.Closer) {
	d.mu.Lock()
	delete(d.allocations, a)
	d.mu.Unlock()
}

// begin announces that an operation is about to access memory. It returns false if the device is closed. A call of end
// must follow if it returns true.
func (d *Device) begin() bool {
	if d.state.Add(1)&closedBit != 0 {
		d.end()
		return false
	}
	return true
}

func (d *Device) end() {
	if d.state.Add(-1) == closedBit {
		d.once.Do(func() { close(d.quiet) })
	}
}

// CopyIn copies src to dst and returns when done.
func (d *Device) CopyIn(dst device.Ptr, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return d.access("copy in", dst, func() { copy(device.Bytes(dst, int64(len(src))), src) })
}

// CopyOut copies from src to dst and returns when done.
func (d *Device) CopyOut(dst []byte, src device.Ptr) error {
	if len(dst) == 0 {
		return nil
	}
	return d.access("copy out", src, func() { copy(dst, device.Bytes(src, int64(len(dst)))) })
}

// access runs f while the device cannot close, and turns a fault into an error.
func (d *Device) access(what string, p device.Ptr, f func()) error {
	if !d.begin() {
		return fmt.Errorf("host: %s on %s: %w", what, d.ID(), device.ErrClosed)
	}
	defer d.end()
	if err := guard(what, f); err != nil {
		return fmt.Errorf("%w (the device's buffer is at %#x)", err, uintptr(p))
	}
	return nil
}

// Close aborts kernels that watch the abort word and frees every allocation of the device. If a kernel still runs,
// Close returns at once, and the memory is freed when the last kernel has returned.
func (d *Device) Close() error {
	if d.state.Or(closedBit)&closedBit != 0 {
		return nil
	}
	d.abort.Store(AbortClosed)
	close(d.closing)
	dropStreams(d)
	if d.state.Load() != closedBit {
		go func() {
			<-d.quiet
			_ = d.free()
		}()
		return nil
	}
	return d.free()
}

func (d *Device) free() error {
	d.mu.Lock()
	all := slices.Collect(maps.Keys(d.allocations))
	d.mu.Unlock()
	return device.CloseAll(all...)
}
