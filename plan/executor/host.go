package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/plan"
)

// hostEngine runs a plan on the host device.
type hostEngine struct {
	x       *ExecutionPlan
	dev     *host.Device
	control *arena
	arenas  []controlArena // by rank; without memory for ranks of other hosts
	local   bool           // all ranks of this host are in this process
	remote  *remote        // what ranks of other hosts reach; nil if there are none
	policy  *wait.Policy
	stall   *wait.Stall
	cores   int // that this rank may use

	order    host.Order // of the launches
	enqueued uint64     // number of launches so far
	tickets  sync.Pool  // of *ticket

	mu      sync.Mutex // guards the fields below
	running int        // launches that execute
	closing bool
	idle    chan struct{} // closed when the engine is closing and nothing runs

	// State that persists between launches. The launch that runs owns it.
	run        *run
	scratch    *scratch
	waited     []uint64       // signals consumed, by link
	semaphores []atomic.Int64 // values
	arrived    []atomic.Uint64
	met        [][]uint64 // by block and barrier: how often the block has arrived
	stages     [2]device.Allocation

	retired []*arena // scratch of smaller messages; launches in flight may still use it
}

// scratch is one generation of scratch arenas.
type scratch struct {
	arena   *arena
	layouts []plan.ScratchLayout // by rank
	plain   []int64              // by rank: payload bytes of a plane
	chunk   int64
	// generation is the number of scratches before, if there are ranks of other hosts
	generation int
}

func newHostEngine(ctx context.Context, x *ExecutionPlan) (engine, error) {
	dev, ok := x.e.cfg.Device.(*host.Device)
	if !ok {
		return nil, invalid("%v is no host device", x.e.cfg.Device.ID())
	}
	h := &hostEngine{x: x, dev: dev, scratch: &scratch{}, idle: make(chan struct{})}
	h.tickets.New = func() any {
		t := &ticket{h: h}
		t.kernel = t.execute
		return t
	}
	var err error
	if h.control, err = x.e.newArena(ctx, dev, offInbound+int64(x.program.maxLinks)*wait.CellSize); err != nil {
		return nil, err
	}
	n, here := len(x.e.local), 0
	h.arenas = make([]controlArena, x.e.size)
	for r := range h.arenas {
		h.arenas[r] = controlArena{pointer(h.control.Ptr[r])}
		if h.control.SameProcess[r] {
			here++
		}
	}
	h.local = here == n
	if !h.local && x.e.buffers == nil {
		if x.e.buffers, err = openBuffers(ctx, x.e, dev); err != nil {
			return nil, errors.Join(err, h.control.Close())
		}
	}
	h.policy = wait.For(here, n)
	h.cores = max(1, min(runtime.NumCPU(), runtime.GOMAXPROCS(0)*((n+here-1)/here))/n)
	prog := x.program
	g := &x.plan.GPUs[x.e.rank]
	h.waited = make([]uint64, prog.links)
	h.semaphores = make([]atomic.Int64, len(g.Semaphores))
	for i, s := range g.Semaphores {
		h.semaphores[i].Store(int64(s.InitValue))
	}
	h.arrived = make([]atomic.Uint64, prog.barriers)
	h.met = make([][]uint64, len(prog.blocks))
	for b := range h.met {
		h.met[b] = make([]uint64, prog.barriers)
	}
	h.run = newRun(h)
	if x.e.network != nil {
		h.remote = openRemote(h)
		// The network's goroutines belong to this process, and every wait needs them.
		p := *wait.For(here, n+1)
		p.GoschedEvery = 1
		h.policy = &p
	}
	if x.e.cfg.StallWarning > 0 {
		h.stall = &wait.Stall{After: x.e.cfg.StallWarning, Report: h.run.warn}
	}
	return h, nil
}

// reserve exchanges new scratch. Launches in flight keep the old scratch, which is freed with the plan. Sizes double,
// so that all generations together take at most twice the last.
func (h *hostEngine) reserve(ctx context.Context, chunk int64) error {
	p := h.x.plan
	s := &scratch{chunk: max(chunk, min(2*h.scratch.chunk, h.largest()))}
	size := int64(0)
	for r := range p.GPUs {
		l := p.Scratch(r, s.chunk)
		s.layouts = append(s.layouts, l)
		s.plain = append(s.plain, int64(p.GPUs[r].ScratchChunks)*s.chunk)
		size = max(size, l.Size)
	}
	var err error
	if s.arena, err = h.x.e.newArena(ctx, h.dev, max(size, 64)); h.remote != nil {
		err = h.remote.offer(ctx, s, err)
	}
	if err != nil {
		return err
	}
	if h.scratch.arena != nil {
		h.retired = append(h.retired, h.scratch.arena)
	}
	h.scratch = s
	return nil
}

func (h *hostEngine) ownScratch() (device.Ptr, int64) {
	if h.scratch.arena == nil {
		return 0, 0
	}
	rank := h.x.e.rank
	return h.scratch.arena.Ptr[rank], h.scratch.layouts[rank].Size
}

// stage does nothing: the host publishes staging buffers to peers like any other buffer.
func (h *hostEngine) stage(context.Context, int64, int64) error { return nil }

// largest returns the largest chunk of any message, as far as the plan bounds it.
func (h *hostEngine) largest() int64 {
	if l, err := h.x.plan.NewLayout(h.x.plan.MaxSize); err == nil {
		return l.Chunk
	}
	return 1 << 40
}

// launch enqueues one run on its stream. Runs of a plan execute one after the other, in the order of these calls, on
// whatever streams.
func (h *hostEngine) launch(l *launch) error {
	s, ok := l.Stream.(*host.Stream)
	if !ok {
		return invalid("the stream is no stream of a host device")
	}
	if err := h.order.Enter(s); err != nil {
		h.x.e.Abort(err)
		return err
	}
	t := h.tickets.Get().(*ticket)
	t.launch = *l
	t.number = h.enqueued
	t.scratch = h.scratch
	h.enqueued++
	workers := 1
	if h.cores > 1 && l.layout.Message >= parallelBytes {
		workers = min(h.cores, len(h.x.program.blocks))
	}
	t.workers = max(1, workers)
	if err := s.Launch("plan "+h.x.plan.Name, t.workers, t.kernel); err != nil {
		h.x.e.Abort(err) // the peers' launches have lost their partner
		return err
	}
	return nil
}

// parallelBytes is the message size from which several workers pay off.
const parallelBytes = 256 << 10

func (h *hostEngine) counter(link int) device.Ptr {
	return h.control.Ptr[h.x.e.rank].Add(offInbound + wait.CellSize*int64(link))
}

func (h *hostEngine) wake() { h.arenas[h.x.e.rank].door().Wake() }

// staging returns n bytes of the executor's memory for input (k 0) or output (k 1), reachable by peers.
func (h *hostEngine) staging(k int, n int64) (device.Ptr, error) {
	if a := h.stages[k]; a != nil {
		if a.Size() >= n {
			return a.Ptr(), nil
		}
		// Peers may have mapped it; their mappings stay valid.
		if err := a.Close(); err != nil {
			return 0, err
		}
		h.stages[k] = nil
	}
	a, err := h.dev.Alloc(max(n, 4096))
	if err != nil {
		return 0, fmt.Errorf("staging buffer of %d bytes: %w", n, err)
	}
	h.stages[k] = a
	return a.Ptr(), nil
}

// enter lets a launch begin unless the plan is closing. The caller must call leave afterwards.
func (h *hostEngine) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return false
	}
	h.running++
	return true
}

func (h *hostEngine) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running--; h.running == 0 && h.closing {
		close(h.idle)
	}
}

// quit runs after a failure. When quit returns, no peer of this process touches this rank's buffers, now or later.
func (h *hostEngine) quit() {
	h.arenas[h.x.e.rank].left().Store(1)
	for r, a := range h.arenas {
		for r != h.x.e.rank && h.control.SameProcess[r] && a.moving().Load() != 0 {
			time.Sleep(10 * time.Microsecond) // a mover lowers its flag after quantum bytes
		}
	}
	h.remote.grant(false)
}

// closeTimeout is how long close waits for a running launch. A launch that waits leaves within microseconds of the
// abort; a launch that copies leaves when the copy is done.
const closeTimeout = 10 * time.Second

func (h *hostEngine) close() error {
	h.mu.Lock()
	h.closing = true
	busy := h.running > 0
	h.mu.Unlock()
	h.wake()
	if busy {
		select {
		case <-h.idle:
		case <-time.After(closeTimeout):
			// The launch still uses the memory, so it is not freed.
			return fmt.Errorf("executor: a launch of plan %s still runs %v after it was aborted", h.x.plan.Name, closeTimeout)
		}
	}
	return errors.Join(h.remote.close(), device.CloseAll(h.stages[:]...),
		device.CloseAll(append(h.retired, h.scratch.arena, h.control)...))
}
