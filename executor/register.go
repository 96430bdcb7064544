package executor

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport/ipc"
	"github.com/goccl/goccl/transport/wire"
)

// gpuRegion is an allocation of each rank that all ranks have mapped.
type gpuRegion struct {
	base     device.Ptr // of this rank's allocation
	size     int64
	ptr      []device.Ptr // by rank, addresses in this process
	mappings []*ipc.Mapping
}

func (r *gpuRegion) close() error {
	var errs []error
	for _, m := range r.mappings {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Register makes the allocations that contain p, one on each rank, accessible to peers, so that plans use buffers in
// them without copies. It is collective. The allocations may differ in size and need not be used together. On the host
// device it does nothing, because buffers are mapped on first use. Registered memory must not be freed before Close.
func (e *Executor) Register(ctx context.Context, p device.Ptr) error {
	if e.dev.ID().Kind != device.CUDA {
		return nil
	}
	fail := func(peer int, err error) error {
		return &algorithm.Error{Comm: e.name, Op: "register", Rank: e.rank, Peer: peer, Err: err}
	}
	r := &gpuRegion{ptr: make([]device.Ptr, e.size)}
	share, revoke, err := ipc.Offer(e.dev, p)
	var w wire.Writer
	if err == nil {
		defer revoke()
		share.Put(&w)
		r.base = p - device.Ptr(share.Handle.Offset)
		r.size = share.Handle.Size
	}
	all, gatherErr := e.boot.AllGather(ctx, w.Seal(shareKind, shareVersion))
	if err != nil {
		return fail(-1, err)
	}
	if gatherErr != nil {
		return fail(-1, gatherErr)
	}
	for k, rec := range all {
		if k == e.rank {
			r.ptr[k] = r.base
			continue
		}
		body, err := wire.Open(rec, shareKind, shareVersion)
		if err != nil {
			return fail(k, errors.Join(err, r.close()))
		}
		other := ipc.GetShare(body)
		if err := body.Done(); err != nil {
			return fail(k, errors.Join(fmt.Errorf("rank %d could not share its memory: %w", k, err), r.close()))
		}
		m, err := importer.Map(ctx, e.dev, &other)
		if err != nil {
			return fail(k, errors.Join(err, r.close()))
		}
		r.mappings = append(r.mappings, m)
		r.ptr[k] = m.Ptr.Add(-other.Handle.Offset)
	}
	if err := e.boot.Barrier(ctx); err != nil {
		return fail(-1, errors.Join(err, r.close()))
	}
	if e.gpu == nil {
		if e.gpu, err = openGPU(ctx, e); err != nil {
			return fail(-1, errors.Join(err, r.close()))
		}
	}
	e.gpu.mu.Lock()
	full := len(e.gpu.regions) >= gpuRegions-1
	if !full {
		e.gpu.regions = append(e.gpu.regions, r)
	}
	e.gpu.mu.Unlock()
	if full {
		return fail(-1, errors.Join(invalid("%d allocations are registered already", gpuRegions-1), r.close()))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.plans {
		if err := x.engine.(*cudaEngine).learn(); err != nil {
			return fail(-1, err)
		}
	}
	return nil
}

// learn adds new regions to the kernel's table. Kernels in flight do not use them yet.
func (h *cudaEngine) learn() error {
	h.u.mu.Lock()
	regions := h.u.regions
	h.u.mu.Unlock()
	for ; h.known < len(regions); h.known++ {
		if err := h.table(h.known+1, regions[h.known].ptr); err != nil {
			return err
		}
	}
	return nil
}
