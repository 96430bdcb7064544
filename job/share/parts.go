package share

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport/ipc"
)

// Parts is one part of memory of each rank, as mapped on this rank.
type Parts struct {
	// Ptr is the address of each rank's part; this rank's own is the memory itself, unless the parts are flat.
	Ptr []device.Ptr
	// Sizes are the sizes of the parts by rank, 0 of a rank that had left, and Size is this rank's.
	Size  int64
	Sizes []int64
	// SameProcess[r] is true if rank r is in this process.
	SameProcess []bool

	// Base and Stride are set for flat parts, else 0: the part of rank r is at Base + r·Stride.
	Base   device.Ptr
	Stride int64

	mappings []*Mapping
	flat     device.Reservation // nil unless the parts are flat
}

// newParts returns parts that are not mapped yet.
func newParts(parts []part, own int) *Parts {
	n := len(parts)
	all := &Parts{Ptr: make([]device.Ptr, n), SameProcess: make([]bool, n), Size: parts[own].size, Sizes: make([]int64, n)}
	for r := range parts {
		all.SameProcess[r], all.Sizes[r] = parts[r].desc.Process == ipc.ProcessID, parts[r].size
	}
	all.Ptr[own] = parts[own].ptr
	return all
}

// Here counts the ranks of this process.
func (p *Parts) Here() (n int) {
	for _, same := range p.SameProcess {
		if same {
			n++
		}
	}
	return n
}

// mapAll maps the parts of the other ranks.
func (x *exchange) mapAll(ctx context.Context, parts []part) (*Parts, error) {
	switch {
	case x.again != nil:
		return x.again, x.again.resume(ctx, x, parts)
	case x.flat != 0 || x.fixed && canPlace(parts):
		return x.mapFlat(ctx, parts)
	}
	all := newParts(parts, x.rank)
	mapOn := Map
	if x.host {
		mapOn = mapHost
	}
	for r := range parts {
		if r == x.rank && !x.host || parts[r].absent() {
			continue
		}
		m, err := mapOn(ctx, x.dev, &parts[r].desc)
		if err != nil {
			return nil, errors.Join(blame(x.name(r), "%w of rank %d: %w", ErrNotMapped, x.name(r), err), all.Close())
		}
		all.mappings, all.Ptr[r] = append(all.mappings, m), m.Ptr
	}
	return all, nil
}

// Close unmaps the parts. Closing nil or twice is harmless.
func (p *Parts) Close() error {
	if p == nil {
		return nil
	}
	err := device.CloseAll(p.mappings...)
	p.mappings = nil
	return errors.Join(err, device.CloseAll(p.flat))
}

// Arena is memory of each rank that belongs to the arena: an engine's scratch.
type Arena struct {
	*Parts
	x     *exchange
	owner Exporter
	size  int64
	alloc func() (device.Allocation, error)
	own   device.Allocation // nil while it is freed

	number  int // in arenas
	entered bool
	resting bool
}

// NewArena allocates size bytes on dev and maps the memory of all ranks. It is collective: all ranks pass the same
// size. When it returns, every rank has mapped everything, so any rank may write.
func NewArena(ctx context.Context, b bootstrap.Bootstrap, dev device.Device, size int64) (*Arena, error) {
	x := blocking(b, dev, nil)
	x.fixed = dev.ID().Kind == device.CUDA
	return newArena(ctx, &Arena{x: x, owner: dev, size: size,
		alloc: func() (device.Allocation, error) { return dev.Alloc(size) }})
}

// NewHostArena is NewArena with memory of the host: every rank maps and page-locks the memory of all ranks, its own
// too, for its device. GPUs without peer access exchange data through it. Parts.Ptr are addresses of the device. The
// memory comes from a NUMA node, if it is not negative: usually the device's node, because the device polls there.
func NewHostArena(ctx context.Context, b bootstrap.Bootstrap, dev device.Device, size int64, node int) (*Arena,
	error,
) {
	memory, err := host.Open(0)
	if err != nil {
		return nil, err
	}
	x := blocking(b, dev, nil)
	x.host = true
	return newArena(ctx, &Arena{x: x, owner: memory, size: size, alloc: func() (own device.Allocation, err error) {
		onNode(node, func() { own, err = memory.Alloc(size) })
		return own, err
	}})
}

func newArena(ctx context.Context, a *Arena) (*Arena, error) {
	if err := a.Resume(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if a.Fixed() {
		a.enter()
	}
	return a, nil
}

// Close unmaps the peers' memory and frees this rank's own. If a peer still has it mapped, the physical memory stays
// allocated until the peer unmaps it.
func (a *Arena) Close() error {
	a.leave()
	return errors.Join(a.Parts.Close(), device.CloseAll(a.own))
}

// onNode runs f on a thread whose new pages come from a NUMA node, if that has some. Without a node (negative), or
// where the process may not choose (containers), they come from wherever the thread runs.
func onNode(node int, f func()) {
	var mask unix.CPUSet // a set of nodes has the same form
	if mask.Set(node); node < 0 || !mask.IsSet(node) {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.SetMemPolicy(unix.MPOL_PREFERRED, &mask) == nil {
		defer func() { _ = unix.SetMemPolicy(unix.MPOL_DEFAULT, nil) }()
	}
	f()
}

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
