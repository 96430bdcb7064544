package nvlink

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/transport/ipc"
)

// registry holds the user buffers that peers have mapped, so that large messages go straight into them
// (kernels/collective/stream.cuh).
//
//  1. The first large operation on a buffer does not find its allocation. The operation goes through the rings, and the
//     allocation is offered to the peers in the background. No call waits for that.
//  2. Each peer maps it, stores the address in its table, which kernels read, and answers whether it could.
//  3. When all peers have mapped it, collectives use it: by slot and offset. Messages need only their sender to have
//     it.
//  4. When the allocation is freed, the peers unmap it and answer; then its slot is free. All operations that use it
//     are over by then, because memory must not be freed while an operation uses it.
//
// An allocation that cannot be shared, or that finds no free slot, keeps using the rings. One goroutine sends offers
// and polls for freed allocations; one per peer receives. They start with the first large operation. Every rank has one
// sooner or later; offers wait for it.
type registry struct {
	dev        *cuda.Device
	boot       bootstrap.Bootstrap
	rank, size int

	once  sync.Once
	table *cuda.HostMemory // [maxRanks][registrySlots] addresses of mapped buffers, 0: none; nil: allocation failed

	mu     sync.Mutex // guards the fields below
	slots  [registrySlots]*registration
	byBase map[device.Ptr]*registration
	mapped map[[2]int]*ipc.Mapping // by peer and slot
	queue  []task                  // pending, in order

	wake  chan struct{} // signals that queue is not empty
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// task offers an allocation or announces that it is gone.
type task struct {
	r    *registration
	drop bool
}

// registration is an allocation of this process and its state.
type registration struct {
	region cuda.Region
	slot   int // -1: none yet
	state  registrationState
	answer int    // number of peer answers still due
	mapped uint32 // bit mask of the peers that have mapped it
	revoke func()
}

type registrationState uint8

const (
	offered  registrationState = iota // or to be offered
	refused                           // it cannot be shared
	dropping                          // gone; its slot is not free yet
)

const (
	registryKind  = 0x4d                   // 'M': a buffer to map
	registryWait  = 5 * time.Second        // limit for a send to a peer
	registrySweep = 250 * time.Millisecond // interval between checks for freed allocations
	registerFrom  = 1 << 20                // operation size in bytes from which a buffer is registered
)

// newRegistry returns nil unless GOCCL_REGISTER=1 and there are peers.
func newRegistry(dev *cuda.Device, boot bootstrap.Bootstrap) *registry {
	if boot.WorldSize() == 1 || !setting.Lenient().Register {
		return nil
	}
	g := &registry{dev: dev, boot: boot, rank: boot.Rank(), size: boot.WorldSize(), byBase: map[device.Ptr]*registration{},
		mapped: map[[2]int]*ipc.Mapping{}, wake: make(chan struct{}, 1)}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// start, tablePtr and word belong to the goroutine of the engine's operations.
func (g *registry) start() {
	g.once.Do(func() {
		table, err := g.dev.HostAlloc(maxRanks * registrySlots * 8)
		if err != nil {
			slog.Warn("no buffers are registered", "rank", g.rank, "cause", err)
			return
		}
		g.table = table
		g.tasks.Go(g.work)
		for p := range g.size {
			if p != g.rank {
				g.tasks.Go(func() { g.listen(p) })
			}
		}
	})
}

// tablePtr is the address of the table for kernels. tablePtr, word and close accept a nil registry.
func (g *registry) tablePtr() uint64 {
	if g == nil {
		return 0
	}
	if g.start(); g.table == nil {
		return 0
	}
	return uint64(g.table.Ptr())
}

// everybody is the bit mask of all ranks.
const everybody = 1<<maxRanks - 1

// word returns the name of a buffer for the peers of set that store into it: the word of placeOf in
// kernels/collective/args.cuh, or 0. An unknown buffer is registered in the background.
func (g *registry) word(p device.Ptr, bytes int64, set uint32) uint64 {
	if g == nil || bytes < registerFrom || g.tablePtr() == 0 {
		return 0
	}
	region, err := g.dev.Lookup(p)
	if err != nil || int64(p-region.Base)+bytes > region.Size {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.byBase[region.Base]
	if r != nil && r.region.Unique != region.Unique { // freed, and allocated again
		g.forget(r)
		r = nil
	}
	if r == nil {
		r = &registration{region: region, slot: -1}
		g.byBase[region.Base] = r
		g.do(task{r, false})
		return 0
	}
	set &= (1<<g.size - 1) &^ (1 << g.rank)
	if r.state != offered || r.mapped&set != set {
		return 0
	}
	return uint64(r.slot+1)<<48 | uint64(p-region.Base)
}

// forget retires r, whose allocation is gone. Its slot is free once all peers have unmapped it. The caller holds mu.
func (g *registry) forget(r *registration) {
	if g.byBase[r.region.Base] == r {
		delete(g.byBase, r.region.Base)
	}
	if r.slot < 0 || r.state == dropping {
		return
	}
	// Answers to the offer may still be due. They arrive before the answers to the drop.
	r.state = dropping
	r.answer += g.size - 1
	g.do(task{r, true})
}

// do queues a task. The caller holds mu.
func (g *registry) do(t task) {
	g.queue = append(g.queue, t)
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// work offers the allocations that word has queued, and retires freed ones.
func (g *registry) work() {
	tick := time.NewTicker(registrySweep)
	defer tick.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-g.wake:
			g.mu.Lock()
			tasks := g.queue
			g.queue = nil
			g.mu.Unlock()
			for _, t := range tasks {
				if t.drop {
					g.tellAll(sayDrop, t.r.slot, nil)
				} else {
					g.offer(t.r)
				}
			}
		case <-tick.C:
			g.sweep()
		}
	}
}

func (g *registry) offer(r *registration) {
	share, revoke, err := ipc.Offer(g.dev, r.region.Base)
	if err == nil && share.Handle.Unique != r.region.Unique {
		err = errors.New("it was freed meanwhile")
	}
	g.mu.Lock()
	if err == nil && g.byBase[r.region.Base] != r {
		err = errors.New("it was forgotten meanwhile")
	}
	if err == nil {
		for r.slot = range g.slots {
			if g.slots[r.slot] == nil {
				break
			}
		}
		if g.slots[r.slot] != nil {
			err = errors.New("no slot is free")
			r.slot = -1
		}
	}
	if err != nil {
		r.state = refused
		g.mu.Unlock()
		if revoke != nil {
			revoke()
		}
		slog.Debug("buffer is not registered", "rank", g.rank, "base", r.region.Base, "size", r.region.Size, "cause", err)
		return
	}
	g.slots[r.slot], r.answer, r.revoke = r, g.size-1, revoke
	slot := r.slot
	g.mu.Unlock()
	g.tellAll(sayOffer, slot, &share)
}

// sweep retires allocations that were freed and not replaced at the same address.
func (g *registry) sweep() {
	g.mu.Lock()
	known := make([]*registration, 0, len(g.byBase))
	for _, r := range g.byBase {
		known = append(known, r)
	}
	g.mu.Unlock()
	for _, r := range known {
		now, err := g.dev.Lookup(r.region.Base)
		if err == nil && now == r.region {
			continue
		}
		g.mu.Lock()
		g.forget(r)
		g.mu.Unlock()
	}
}

// entry writes the table. The owner names an entry only after the answer that the entry is written, so a kernel reads
// it later.
func (g *registry) entry(peer, slot int, at uint64) { g.word64(peer, slot).Store(at) }

// at reads an entry of the table.
func (g *registry) at(peer, slot int) uint64 { return g.word64(peer, slot).Load() }

func (g *registry) word64(peer, slot int) *atomic.Uint64 {
	return &unsafe.Slice((*atomic.Uint64)(g.table.Pointer()), maxRanks*registrySlots)[peer*registrySlots+slot]
}

// end revokes the offer: no peer needs its descriptor any more.
func (r *registration) end() {
	if r.revoke != nil {
		r.revoke()
		r.revoke = nil
	}
}

// halt stops the background goroutines; the mappings stay.
func (g *registry) halt() {
	if g != nil {
		g.stop()
		g.tasks.Wait()
	}
}

// close frees the registry. No kernel may run any more.
func (g *registry) close() error {
	if g == nil {
		return nil
	}
	g.halt()
	var errs []error
	for _, m := range g.mapped {
		errs = append(errs, m.Close())
	}
	g.mapped = nil
	for _, r := range g.slots {
		if r != nil {
			r.end()
		}
	}
	if g.table != nil {
		errs = append(errs, g.table.Close())
	}
	return errors.Join(errs...)
}
