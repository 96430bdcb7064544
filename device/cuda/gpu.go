package cuda

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// gpu is the state that all Devices of one ordinal in this process share. It lives while one of them, or an import of
// its memory, is open.
type gpu struct {
	ordinal int
	ctx     driver.Context
	props   Properties
	refs    int // guarded by process.mu

	// setup carries zeroing and copies between Go and device memory. It never waits for user streams, and user streams
	// never wait for it. It has the greatest priority, because streams of one priority share hardware queues, where
	// work could be behind a kernel that waits.
	setup driver.Stream

	loading sync.Mutex
	modules map[string]*Module // guarded by loading

	keep   sync.Mutex // guards the fields below
	holds  int
	blocks map[int64][]hostBlock // free host memory, by size
	slabs  []driver.Ptr          // of pages

	mu      sync.Mutex
	events  []driver.Event         // free events, with timing
	imports map[[64]byte]*ipcShare // open legacy handles: a process may open each handle once per context
}

type ipcShare struct {
	ptr  driver.Ptr
	refs int
}

// process is the state of all GPUs of this process. Lock order: process.mu, then gpu.mu.
var process = struct {
	mu   sync.Mutex
	gpus map[int]*gpu
	// mappings are the VMM allocations of this process, by address, so that a GPU that is opened later gets access.
	mappings map[driver.Ptr]*mapping
	serial   atomic.Uint64
}{gpus: map[int]*gpu{}, mappings: map[driver.Ptr]*mapping{}}

type mapping struct {
	vmm    driver.VMM
	owner  int
	mask   uint64 // devices with access
	serial uint64
	freed  bool // or about to be: nothing is done with it any more
}

// acquire returns the gpu of an ordinal and takes a reference.
func acquire(ordinal int) (*gpu, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	process.mu.Lock()
	defer process.mu.Unlock()
	if g := process.gpus[ordinal]; g != nil {
		g.refs++
		return g, nil
	}
	n, err := driver.DeviceCount()
	if err != nil {
		return nil, fail(ordinal, "open", err)
	}
	if ordinal < 0 || ordinal >= n || ordinal >= 64 {
		return nil, failKind(ordinal, "open", device.ErrNoDevice,
			"this process sees %d GPUs, numbered from 0; CUDA_VISIBLE_DEVICES chooses which", n)
	}
	ctx, err := driver.RetainPrimary(ordinal)
	if err != nil {
		return nil, fail(ordinal, "open", err)
	}
	g := &gpu{ordinal: ordinal, ctx: ctx, refs: 1, imports: map[[64]byte]*ipcShare{}, modules: map[string]*Module{},
		blocks: map[int64][]hostBlock{}}
	if g.props, err = readProperties(ordinal); err == nil {
		var greatest int
		if _, greatest, err = ctx.PriorityRange(); err == nil {
			g.setup, err = ctx.NewStream(greatest)
		}
	}
	if err != nil {
		_ = driver.ReleasePrimary(ordinal)
		return nil, fail(ordinal, "open", err)
	}
	if err := g.meetPeers(); err != nil {
		_ = ctx.DestroyStream(g.setup)
		_ = driver.ReleasePrimary(ordinal)
		return nil, err
	}
	process.gpus[ordinal] = g
	return g, nil
}

// meetPeers enables access between g and the GPUs that are already open. The caller holds process.mu.
func (g *gpu) meetPeers() error {
	for _, p := range process.gpus {
		for _, pair := range [2][2]*gpu{{g, p}, {p, g}} {
			from, to := pair[0], pair[1]
			ok, err := driver.CanAccessPeer(from.ordinal, to.ordinal)
			if err == nil && ok {
				err = from.ctx.EnablePeer(to.ctx)
			}
			if err != nil && !driver.IsCode(err, driver.PeerAccessUnsupported) {
				return fail(from.ordinal, "enable peer access", err)
			}
		}
	}
	for _, m := range process.mappings {
		if err := g.reach(m); err != nil {
			return err
		}
	}
	return nil
}

// reach gives g access to a mapping of this process, if the hardware supports it. The caller holds process.mu.
func (g *gpu) reach(m *mapping) error {
	bit := uint64(1) << g.ordinal
	if m.freed || m.mask&bit != 0 {
		return nil
	}
	ok, err := driver.CanAccessPeer(g.ordinal, m.owner)
	if err != nil || !ok {
		return fail(g.ordinal, "query peer access", err)
	}
	if err := g.ctx.VMMAccess(m.vmm, bit); err != nil {
		return fail(g.ordinal, "map memory of a peer", err)
	}
	m.mask |= bit
	return nil
}

// release drops a reference and, with the last, the context.
func (g *gpu) release() error {
	process.mu.Lock()
	defer process.mu.Unlock()
	if g.refs--; g.refs > 0 {
		return nil
	}
	delete(process.gpus, g.ordinal)
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, e := range g.events {
		errs = append(errs, g.ctx.DestroyEvent(e))
	}
	g.events = nil
	errs = append(errs, g.drop(), g.ctx.DestroyStream(g.setup), driver.ReleasePrimary(g.ordinal))
	return fail(g.ordinal, "close", errors.Join(errs...))
}

// event takes an event from the free list or makes one.
func (g *gpu) event() (driver.Event, error) {
	g.mu.Lock()
	if n := len(g.events); n > 0 {
		e := g.events[n-1]
		g.events = g.events[:n-1]
		g.mu.Unlock()
		return e, nil
	}
	g.mu.Unlock()
	return g.ctx.NewEvent(true)
}

// recycle returns an event to the free list. Waits that were enqueued on it keep the record they found.
func (g *gpu) recycle(e driver.Event) {
	g.mu.Lock()
	g.events = append(g.events, e)
	g.mu.Unlock()
}
