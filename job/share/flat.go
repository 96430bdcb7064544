package share

import (
	"context"
	"errors"
	"slices"

	"github.com/goccl/goccl/device"
)

// Option changes an exchange. All ranks give the same options.
type Option func(*exchange)

// Flat maps all parts, this rank's own too, side by side: part r begins at Parts.Base + r·Parts.Stride. Stride is
// a multiple of unit. NCCL's device API needs that, with units of 4 GiB. The memory must have a file descriptor
// (Device.Alloc, ncclMemAlloc), and the parts must begin at the same offset in their allocations, or whole pages of 2
// MiB apart, because only pages can be moved. A flat mapping is one more mapping of the memory; it is not cached.
func Flat(unit int64) Option { return func(x *exchange) { x.flat = unit } }

// Free lets the parts of a window differ in size, and windows of a rank overlap. Such windows are not found by address.
func Free() Option { return func(x *exchange) { x.uniform, x.disjoint = false, false } }

// Bound lets waits for windows end, with the cause, when the context that bound derives ends.
func Bound(bound func(context.Context) (context.Context, func())) Option {
	return func(x *exchange) { x.bound = bound }
}

const (
	flatPage = 2 << 20
	flatMost = 1 << 44 // bytes of one part's allocation
)

// mapFlat maps the parts of all ranks in one range of addresses.
//
//	distance r·Stride       empty, so that the parts begin at the same offset: a number of pages
//	         + shift        the allocation of rank r
//	         + before       part r
func (x *exchange) mapFlat(ctx context.Context, parts []part) (all *Parts, err error) {
	before, extent := int64(0), int64(0)
	for r := range parts {
		before = max(before, parts[r].desc.Handle.Offset)
	}
	shift := func(r int) int64 { return before - parts[r].desc.Handle.Offset }
	for r := range parts {
		h, who := &parts[r].desc.Handle, x.name(r)
		switch {
		case h.Size > flatMost:
			return nil, blame(who, "%w: an allocation of %d bytes on rank %d", device.ErrUnsupported, h.Size, who)
		case shift(r)%flatPage != 0:
			return nil, blame(who, "%w: the memory of rank %d begins %d bytes into its allocation, another rank's %d: "+
				"share memory at the same offset on all ranks, as at the start of an allocation",
				device.ErrUnsupported, who, h.Offset, before)
		}
		extent = max(extent, shift(r)+h.Size)
	}
	unit := (max(x.flat, flatPage) + flatPage - 1) / flatPage * flatPage
	stride := (extent + unit - 1) / unit * unit
	addresses, err := x.dev.Reserve(stride * int64(x.size))
	if err != nil {
		return nil, err
	}
	all = newParts(parts, x.rank)
	all.Base, all.Stride, all.flat = addresses.Ptr().Add(before), stride, addresses
	if err := x.placeAll(ctx, all, parts); err != nil {
		return nil, errors.Join(err, all.Close())
	}
	return all, nil
}

// placeAll maps the parts in the range of all.
func (x *exchange) placeAll(ctx context.Context, all *Parts, parts []part) error {
	for r := range parts {
		if parts[r].absent() {
			continue
		}
		all.Ptr[r] = all.Base.Add(int64(r) * all.Stride)
		at := int64(all.Ptr[r]-all.flat.Ptr()) - parts[r].desc.Handle.Offset
		if err := x.place(ctx, all.flat, &parts[r].desc, at); err != nil {
			return blame(x.name(r), "%w of rank %d: %w", ErrNotMapped, x.name(r), err)
		}
	}
	return nil
}

// canPlace reports whether all parts can be mapped at chosen addresses.
func canPlace(parts []part) bool {
	return !slices.ContainsFunc(parts, func(o part) bool { return o.desc.Handle.Type != device.HandleFD && !o.absent() })
}

// place maps an allocation at an offset of a range.
func (x *exchange) place(ctx context.Context, to device.Reservation, d *Descriptor, offset int64) error {
	if err := d.mappable(x.dev); err != nil {
		return err
	}
	h, done, err := fetch(ctx, d)
	if err != nil {
		return err
	}
	defer done()
	return to.Map(offset, h)
}
