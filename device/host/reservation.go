package host

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
)

// reservation is a range of addresses in which shared memory is mapped a second time. The registry does not know it:
// memory has one owner, and Lookup and Export work at the owner's address.
type reservation struct {
	d    *Device
	ptr  device.Ptr
	size int64
	once sync.Once
	err  error
}

// Reserve reserves addresses. They take no memory until something is mapped there.
func (d *Device) Reserve(size int64) (device.Reservation, error) {
	if err := d.check("reserve"); err != nil {
		return nil, err
	}
	if size <= 0 || size > 1<<46 {
		return nil, fmt.Errorf("host: reserve %d bytes of addresses on %s: %w", size, d.ID(), device.ErrOutOfMemory)
	}
	size = (size + hugePageSize - 1) &^ (hugePageSize - 1)
	// Reserve a page more and give back what lies outside the aligned range.
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(size+hugePageSize), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("host: reserve %d bytes of addresses on %s: %w", size, d.ID(), outOfMemory(err))
	}
	r := &reservation{d: d, ptr: device.Ptr((uintptr(p) + hugePageSize - 1) &^ (hugePageSize - 1)), size: size}
	front := int64(uintptr(r.ptr) - uintptr(p))
	for _, spare := range []struct {
		at device.Ptr
		n  int64
	}{{device.Ptr(p), front}, {r.ptr.Add(size), hugePageSize - front}} {
		if spare.n > 0 {
			err = errors.Join(err, unix.MunmapPtr(pointer(uintptr(spare.at)), uintptr(spare.n)))
		}
	}
	if err == nil {
		err = d.keep(r)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Ptr is the start of the range.
func (r *reservation) Ptr() device.Ptr { return r.ptr }

// Map maps a memfd of this or another process.
func (r *reservation) Map(offset int64, h device.Handle) error {
	fail := func(err error) error {
		return fmt.Errorf("host: map %d bytes of %s on %s: %w", h.Size, h.Owner, r.d.ID(), err)
	}
	if h.Type != device.HandleFD || h.Owner.Kind != device.Host {
		return fail(fmt.Errorf("%w: memory without a file descriptor cannot be mapped at an address: use Device.Alloc",
			device.ErrUnsupported))
	}
	st, err := checkFD(h)
	if err != nil {
		return fail(err)
	}
	if offset < 0 || offset%hugePageSize != 0 || st.Size > r.size || offset > r.size-st.Size {
		return fail(fmt.Errorf("%d bytes at offset %d of %d reserved ones", st.Size, offset, r.size))
	}
	at := pointer(uintptr(r.ptr.Add(offset)))
	if _, err := unix.MmapPtr(h.FD, 0, at, uintptr(st.Size), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return fail(outOfMemory(err))
	}
	return nil
}

// Unmap unmaps everything and keeps the addresses.
func (r *reservation) Unmap() error {
	_, err := unix.MmapPtr(-1, 0, pointer(uintptr(r.ptr)), uintptr(r.size), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED)
	return err
}

// Close unmaps everything and gives up the addresses.
func (r *reservation) Close() error {
	r.once.Do(func() {
		r.d.forget(r)
		r.err = unix.MunmapPtr(pointer(uintptr(r.ptr)), uintptr(r.size))
	})
	return r.err
}
