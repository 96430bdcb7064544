package executor

import (
	"context"
	"errors"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/share"
)

// Register makes the allocations that contain p, one on each rank, accessible to peers, so that plans use buffers in
// them without copies. It is collective. The allocations may differ in size and need not be used together. On the host
// device it does nothing, because buffers are mapped on first use. Registered memory must not be freed before Close.
func (e *Executor) Register(ctx context.Context, p device.Ptr) error {
	if e.dev.ID().Kind != device.CUDA {
		return nil
	}
	if err := e.meet(ctx); err != nil {
		return &collective.Error{Comm: e.name, Op: "register", Rank: e.rank, Peer: -1, Err: err}
	}
	r, err := share.Exchange(ctx, e.here, e.dev, p, 0)
	if err == nil && e.gpu == nil {
		e.gpu, err = openGPU(ctx, e)
	}
	if err == nil {
		err = e.gpu.add(region{r, e.byRank(r.Ptr)})
	}
	if err != nil {
		return &collective.Error{Comm: e.name, Op: "register", Rank: e.rank, Peer: e.localPeer(err),
			Err: errors.Join(err, r.Close())}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.plans {
		if err := x.engine.(*cudaEngine).learn(); err != nil {
			return &collective.Error{Comm: e.name, Op: "register", Rank: e.rank, Peer: -1, Err: err}
		}
	}
	return nil
}

// region is an allocation of each rank of this host, indexed by the ranks of the communicator.
type region struct {
	*share.Parts
	Ptr []device.Ptr // 0 for ranks of other hosts
}

func (u *gpu) add(r region) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.regions) >= gpuRegions-1 {
		return invalid("%d allocations are registered already", gpuRegions-1)
	}
	u.regions = append(u.regions, r)
	return nil
}

// learn adds new regions to the kernel's table. Kernels in flight do not use them yet.
func (h *cudaEngine) learn() error {
	h.u.mu.Lock()
	regions := h.u.regions
	h.u.mu.Unlock()
	for ; h.known < len(regions); h.known++ {
		if err := h.table(h.known+1, regions[h.known].Ptr); err != nil {
			return err
		}
	}
	return nil
}
