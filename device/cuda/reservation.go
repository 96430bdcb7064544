package cuda

import (
	"errors"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// reservation is a range of addresses in which VMM allocations are mapped.
type reservation struct {
	Allocation
	mapped []driver.VMM
}

// page is the granularity of VMM memory on all GPUs so far; the driver refuses other offsets where it is not.
const page = 2 << 20

// Reserve reserves addresses for VMM memory, rounded up to whole pages.
func (d *Device) Reserve(size int64) (device.Reservation, error) {
	g, err := d.sized("reserve", size)
	if err != nil {
		return nil, err
	}
	if !g.props.VMM {
		return nil, failKind(g.ordinal, "reserve", device.ErrUnsupported,
			"the GPU or its driver has no virtual memory management")
	}
	size = (size + page - 1) / page * page
	p, err := g.ctx.VMMReserve(size, page)
	if err != nil {
		return nil, fail(g.ordinal, "reserve", err)
	}
	r := &reservation{Allocation: Allocation{d: d, ptr: device.Ptr(p), size: size}}
	r.free = func() error {
		return errors.Join(r.Unmap(), failAt(g.ordinal, "unreserve", p, g.ctx.VMMUnreserve(p, size)))
	}
	_, err = r.keep()
	return r, err
}

// Map maps a VMM allocation, of this process or another.
func (r *reservation) Map(offset int64, h device.Handle) error {
	g := r.d.gpu
	switch {
	case h.Type != device.HandleFD || h.Owner.Kind != device.CUDA:
		return failKind(g.ordinal, "map", device.ErrUnsupported,
			"memory of %s without a file descriptor cannot be mapped at an address: use Device.Alloc or ncclMemAlloc", h.Owner)
	case offset < 0 || h.Size <= 0 || h.Size > r.size || offset > r.size-h.Size:
		return failKind(g.ordinal, "map", errSize, "%d bytes at offset %d of %d reserved ones", h.Size, offset, r.size)
	}
	v, err := g.ctx.VMMImport(h.FD, h.Size, 1<<g.ordinal, driver.Ptr(r.ptr.Add(offset)))
	if err != nil {
		return failAt(g.ordinal, "map", r.ptr.Add(offset), err)
	}
	r.mapped = append(r.mapped, v)
	return nil
}

// Unmap unmaps everything and keeps the addresses.
func (r *reservation) Unmap() error {
	var errs []error
	for _, v := range r.mapped {
		errs = append(errs, failAt(r.d.gpu.ordinal, "unmap", v.Ptr, r.d.gpu.ctx.VMMFree(v)))
	}
	r.mapped = nil
	return errors.Join(errs...)
}
