package nvlink

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/transport/ipc"
)

// registry is the user's buffers that peers have mapped, so that large messages go straight into them (kernels/collective/stream.cuh).
//
//  1. The first large operation on a buffer finds its allocation unknown. It goes through the rings, and the allocation is offered to the peers
//     meanwhile: no call ever waits for that.
//  2. Each peer maps it, notes where in its table, which kernels read, and says whether it could.
//  3. Once all have, collectives name it: its slot, and the offset. Messages need only their sender to have it.
//  4. When the allocation is gone, the peers unmap it and say so; then its slot is free. An operation that names it is over by then, because nobody
//     frees memory that an operation still uses.
//
// An allocation that cannot be shared, or for which there is no slot, stays with the rings. One goroutine offers and looks for what is gone, one for
// each peer listens; they start with the first large operation, which every rank has sooner or later: offers wait for it.
type registry struct {
	dev        *cuda.Device
	boot       bootstrap.Bootstrap
	rank, size int

	once  sync.Once
	table *cuda.HostMemory // [maxRanks][registrySlots] addresses of the peers' buffers here, 0: none; nil: it could not be had

	mu     sync.Mutex // guards what follows
	slots  [registrySlots]*registration
	byBase map[device.Ptr]*registration
	mapped map[[2]int]*ipc.Mapping // by peer and slot
	queue  []task                  // to be done, in this order

	wake  chan struct{} // there is something in the queue
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// task is to offer an allocation, or to say that it is gone.
type task struct {
	r    *registration
	drop bool
}

// registration is an allocation of this process on its way.
type registration struct {
	region cuda.Region
	slot   int // -1: none yet
	state  registrationState
	answer int    // of how many peers the answer is still due
	mapped uint32 // the peers that have it, a bit each
	revoke func()
}

type registrationState uint8

const (
	offered  registrationState = iota // or not yet
	refused                           // it cannot be shared
	dropping                          // gone; its slot is not free yet
)

const (
	registryTag   = 3                      // of the bootstrap: 0 to 2 are the communicator's
	registryKind  = 0x4d                   // 'M': a buffer to be mapped
	registryWait  = 5 * time.Second        // for telling a peer
	registrySweep = 250 * time.Millisecond // between two looks for what is gone
	registerFrom  = 1 << 20                // bytes of an operation from which its buffer is worth it
)

// newRegistry is nil unless GOCCL_REGISTER switches it on and there are peers.
func newRegistry(dev *cuda.Device, boot bootstrap.Bootstrap) *registry {
	if boot.WorldSize() == 1 || os.Getenv("GOCCL_REGISTER") != "1" {
		return nil
	}
	g := &registry{dev: dev, boot: boot, rank: boot.Rank(), size: boot.WorldSize(), byBase: map[device.Ptr]*registration{},
		mapped: map[[2]int]*ipc.Mapping{}, wake: make(chan struct{}, 1)}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// start is for the goroutine of the engine's operations, as tablePtr and word are.
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

// tablePtr is the table for kernels. It is nil-safe, as word and close are.
func (g *registry) tablePtr() uint64 {
	if g == nil {
		return 0
	}
	if g.start(); g.table == nil {
		return 0
	}
	return uint64(g.table.Ptr())
}

// everybody is all ranks, a bit each.
const everybody = 1<<maxRanks - 1

// word names a buffer to those of its peers in the set who will store into it: the word of placeOf in kernels/collective/args.cuh, or 0. What is not
// known yet is registered in the background.
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

// forget takes r, whose allocation is gone, out of use. Its slot is free once all peers have unmapped it. For holders of mu.
func (g *registry) forget(r *registration) {
	if g.byBase[r.region.Base] == r {
		delete(g.byBase, r.region.Base)
	}
	if r.slot < 0 || r.state == dropping {
		return
	}
	// Answers to the offer may still be due; they come before those to this.
	r.state = dropping
	r.answer += g.size - 1
	g.do(task{r, true})
}

// do is for holders of mu.
func (g *registry) do(t task) {
	g.queue = append(g.queue, t)
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// work offers what word has found, and forgets what is gone.
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

// sweep forgets what was freed without a successor at its address. What has no slot is only looked up again when it is used.
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

// entry writes the table. A kernel reads an entry after the owner has named it, which it does after it has heard that the entry is there.
func (g *registry) entry(peer, slot int, at uint64) { g.word64(peer, slot).Store(at) }

// at reads it.
func (g *registry) at(peer, slot int) uint64 { return g.word64(peer, slot).Load() }

func (g *registry) word64(peer, slot int) *atomic.Uint64 {
	return &unsafe.Slice((*atomic.Uint64)(g.table.Pointer()), maxRanks*registrySlots)[peer*registrySlots+slot]
}

// end ends the offer: nobody has to fetch its descriptor any more.
func (r *registration) end() {
	if r.revoke != nil {
		r.revoke()
		r.revoke = nil
	}
}

// halt ends what runs in the background; what is mapped stays.
func (g *registry) halt() {
	if g != nil {
		g.stop()
		g.tasks.Wait()
	}
}

// close ends the registry once no kernel runs any more.
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
