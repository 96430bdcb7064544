package executor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
	"github.com/goccl/goccl/kernels"
	"github.com/goccl/goccl/transport/ipc"
)

// gpu holds what all plans of an executor share on a GPU.
type gpu struct {
	dev     *cuda.Device
	execute [datatype.NumTypes]*cuda.Function
	quick   [datatype.NumTypes]*cuda.Function
	scale   [datatype.NumTypes]*cuda.Function
	sharing int // number of ranks on the device that has most
	bulk    bool

	mu      sync.Mutex
	regions []region // registered allocations, from region 1 on
	stop    chan struct{}
	watch   sync.WaitGroup
}

var gpuTypes = [datatype.NumTypes]string{
	"int8", "uint8", "int32", "uint32", "int64", "uint64",
	"float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2",
}

// gpuUnsigned is unsignedBit of kernels/include/goccl/reduce.cuh: unsigned integers use the kernels of signed ones, and
// this bit of the operator tells them apart.
const gpuUnsigned = 8

// openGPU loads all kernels. The driver loads a kernel on its first use, and may then wait until the device is idle.
// The device never becomes idle while another rank's kernel waits for this rank. So all kernels are loaded before any
// runs.
func openGPU(ctx context.Context, e *Executor) (*gpu, error) {
	dev, ok := e.cfg.Device.(*cuda.Device)
	if !ok {
		return nil, invalid("%v is no CUDA device", e.cfg.Device.ID())
	}
	if e.size > gpuRanks {
		return nil, fmt.Errorf("%w: %d ranks; plans on GPUs have up to %d", collective.ErrUnsupported, e.size, gpuRanks)
	}
	p := dev.Properties()
	// Containers of one machine may count as different hosts and have the same GPU.
	sharing, err := bootstrap.MostAlike(ctx, e.cfg.Bootstrap, ipc.Machine()+" "+p.BusID)
	if err != nil {
		return nil, err
	}
	u := &gpu{dev: dev, sharing: sharing, stop: make(chan struct{})}
	u.bulk = p.Major >= 9 && p.SharedOptin >= gpuShared+gpuBulk
	shared := gpuShared
	if u.bulk {
		shared += gpuBulk
	}
	module, err := launcher.Load(dev, "executor")
	if err != nil {
		return nil, err
	}
	for t, name := range gpuTypes {
		signed := strings.TrimPrefix(name, "u")
		for _, k := range []struct {
			f      **cuda.Function
			name   string
			shared int
		}{{&u.execute[t], "execute_" + signed, shared}, {&u.quick[t], "quick_" + signed, gpuShared},
			{&u.scale[t], "scale_" + name, 0}} {
			if *k.f, err = module.Function(kernels.Entry(k.name)); err == nil && k.shared > 0 {
				err = (*k.f).SetMaxDynamicShared(k.shared)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	u.watch.Add(1)
	go u.watchReports(e)
	return u, nil
}

// gpuShared is the largest program of a block, in bytes, that goes to shared memory; a larger one stays in global
// memory.
const gpuShared = 64 << 10

// gpuBulk is the shared memory that bulk copies need.
const gpuBulk = gpuBulkStages * (gpuBulkChunk + 8)

// watchReports polls for waits that timed out on the GPU, so that the other plans and ranks find out without a call.
func (u *gpu) watchReports(e *Executor) {
	defer u.watch.Done()
	t := time.Tick(50 * time.Millisecond)
	for {
		select {
		case <-t:
			_ = e.Err()
		case <-u.stop:
			return
		}
	}
}

// reported returns what a plan's kernel reports of a wait that it gave up.
func (e *Executor) reported() error {
	e.mu.Lock()
	plans := slices.Clone(e.plans)
	e.mu.Unlock()
	for _, x := range plans {
		if h, ok := x.engine.(*cudaEngine); ok {
			if err := h.launcher.Reported(h.report); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *gpu) close() error {
	close(u.stop)
	u.watch.Wait()
	var errs []error
	for _, r := range u.regions {
		errs = append(errs, r.Close())
	}
	return errors.Join(errs...)
}

// Register makes the allocations that contain p, one on each rank, accessible to peers, so that plans use buffers in
// them without copies. It is collective. The allocations may differ in size and need not be used together. On the host
// device it does nothing, because buffers are mapped on first use. Registered memory must not be freed before Close.
func (e *Executor) Register(ctx context.Context, p device.Ptr) error {
	if e.cfg.Device.ID().Kind != device.CUDA {
		return nil
	}
	fail := func(err error) error {
		return &collective.Error{Comm: e.cfg.Name, Op: "register", Rank: e.rank, Peer: fault.PeerOf(err), Err: err}
	}
	if err := e.meet(ctx); err != nil {
		return fail(err)
	}
	r, err := share.Exchange(ctx, e.here, e.cfg.Device, p, 0)
	if err == nil && e.gpu == nil {
		e.gpu, err = openGPU(ctx, e)
	}
	if err == nil {
		err = e.gpu.add(region{r, e.byRank(r.Ptr)})
	}
	if err != nil {
		return fail(errors.Join(err, r.Close()))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.plans {
		if err := x.engine.(*cudaEngine).learn(); err != nil {
			return fail(err)
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
