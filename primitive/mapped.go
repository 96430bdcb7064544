package primitive

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// Mapped memory has one address for the processor and a device: shared memory of the host device, or pinned host memory
// of a GPU, where unified addressing makes the two addresses equal.

// allocMapped allocates size zeroed bytes that the processor and dev's kernels access at the same address.
func allocMapped(dev device.Device, size int64) (device.Allocation, error) {
	d, ok := dev.(*cuda.Device)
	if !ok {
		return dev.Alloc(size)
	}
	h, err := d.HostAlloc(size)
	if err != nil {
		return nil, err
	}
	return unified(h)
}

// pinHostMemory makes host memory usable by the kernels of every GPU at its own address. undo reverts that.
func pinHostMemory(dev device.Device, p device.Ptr, size int64) (undo func() error, err error) {
	d, ok := dev.(*cuda.Device)
	if !ok {
		return func() error { return nil }, nil
	}
	h, err := d.HostRegister(p, size)
	if err != nil {
		return nil, err
	}
	if _, err := unified(h); err != nil {
		return nil, err
	}
	return h.Close, nil
}

// unified rejects memory that has two different addresses.
func unified(h *cuda.HostMemory) (device.Allocation, error) {
	if h.Ptr() != h.Host() {
		return nil,
			errors.Join(fmt.Errorf("primitive: host memory %#x is %#x for the GPU: %w: goccl needs unified addressing",
				uintptr(h.Host()),
				uintptr(h.Ptr()), device.ErrUnsupported), h.Close())
	}
	return h, nil
}

// reachable reports whether the processor can access memory of dev directly.
func reachable(dev device.Device) bool { return dev != nil && dev.ID().Kind == device.Host }
