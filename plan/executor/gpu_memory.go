package executor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/goccl/goccl/device"
)

// reserve exchanges new scratch. Kernels in flight use the old scratch, which is freed when the plan is closed.
func (h *cudaEngine) reserve(ctx context.Context, chunk int64) error {
	p := h.x.plan
	size := int64(0)
	for r := range p.GPUs {
		size = max(size, p.Scratch(r, chunk).Size)
	}
	w, err := h.x.e.newArena(ctx, h.u.dev, max(size, 64))
	if h.x.e.rings != nil { // ranks of other hosts do not take part in the arena, and must not launch without it
		err = h.x.agree(ctx, err)
	}
	if err != nil {
		return errors.Join(err, device.CloseAll(w))
	}
	if h.scratch != nil {
		h.retired = append(h.retired, h.scratch)
	}
	h.scratch = w
	for r := range p.GPUs {
		l, a := p.Scratch(r, chunk), &h.args.rank[r]
		a.scratch, a.planeBytes = uint64(w.Ptr[r]), uint64(int64(p.GPUs[r].ScratchChunks)*chunk)
		h.quick.room[r] = a.planeBytes
		for k := range 2 {
			a.plain[k], a.packets[k] = uint64(l.Plain[k]), uint64(l.Packets[k])
			h.quick.packets[r][k] = a.scratch + a.packets[k]
			if r == h.x.e.rank {
				h.quick.plain[k] = a.scratch + a.plain[k]
			}
		}
	}
	return nil
}

func (h *cudaEngine) ownScratch() (device.Ptr, int64) {
	if h.scratch == nil {
		return 0, 0
	}
	rank := h.x.e.rank
	return h.scratch.Ptr[rank], h.x.plan.Scratch(rank, h.x.capacity).Size
}

// stage makes the staging region fit input and output of the largest rank.
func (h *cudaEngine) stage(ctx context.Context, in, out int64) error {
	in, out = (in+255)&^255, (out+255)&^255
	if h.staging != nil && in <= h.halves && in+out <= h.staged {
		return nil
	}
	w, err := h.x.e.newArena(ctx, h.u.dev, max(in+out, 4096))
	if err != nil {
		return err
	}
	if h.staging != nil {
		h.retired = append(h.retired, h.staging)
	}
	h.staging, h.halves, h.staged = w, in, in+out
	return h.table(0, w.Ptr)
}

// stagingOf returns the launch's staging memory: input at base, output half bytes further. If peers touch neither, the
// memory is private to this rank, because only this rank knows whether its caller's buffers need staging.
func (h *cudaEngine) stagingOf(l *launch) (base device.Ptr, half int64, err error) {
	if h.staging != nil {
		return h.staging.Ptr[h.x.e.rank], h.halves, nil
	}
	if h.x.program.touched != [2]bool{} {
		return 0, 0, invalid("the buffers are not registered, and the plan was loaded with Registered")
	}
	half = (l.sizes[0] + 255) &^ 255
	size := half + l.sizes[1]
	if h.x.plan.InPlace {
		half, size = 0, max(l.sizes[0], l.sizes[1])
	}
	if h.private == nil || h.private.Size() < size {
		a, err := h.u.dev.Alloc(size)
		if err != nil {
			return 0, 0, fmt.Errorf("staging buffers: %w", err)
		}
		if h.private != nil {
			h.outgrown = append(h.outgrown, h.private)
		}
		h.private = a
	}
	return h.private.Ptr(), half, nil
}

// table writes the addresses of region k to the kernel's table.
func (h *cudaEngine) table(k int, ptr []device.Ptr) error {
	for r, p := range ptr {
		at := h.launcher.State.Ptr().Add(h.layout.regions + int64(r*gpuRegions+k)*8)
		if err := h.u.dev.CopyIn(at, binary.LittleEndian.AppendUint64(nil, uint64(p))); err != nil {
			return err
		}
	}
	return nil
}

// region returns the registered region that contains n bytes at p.
func (h *cudaEngine) region(p device.Ptr, n int64) (k int, offset int64, ok bool) {
	h.u.mu.Lock()
	defer h.u.mu.Unlock()
	for i, r := range h.u.regions {
		if base := r.Ptr[h.x.e.rank]; p >= base && int64(p-base) <= r.Size-n {
			return i + 1, int64(p - base), i < h.known
		}
	}
	return 0, 0, false
}
