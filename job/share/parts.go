package share

import (
	"context"
	"errors"
	"runtime"

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
	// Size is the size of this rank's part.
	Size int64
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
	all := &Parts{Ptr: make([]device.Ptr, len(parts)), SameProcess: make([]bool, len(parts)), Size: parts[own].size}
	for r := range parts {
		all.SameProcess[r] = parts[r].desc.Process == ipc.ProcessID
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
