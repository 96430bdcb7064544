package cudawire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/engine/hosts/links"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
)

// Config configures a Wire.
type Config struct {
	collective.Job
	Net transport.Net
	// NIC is the index of the adapter.
	NIC int
	// Blocks is the largest number of blocks of a launch: kernels of other parts of the communicator run at the same time,
	// and all blocks must be resident. 0 is no bound but the size of the GPU.
	Blocks int
	// Overlap lets small launches start before the previous kernel has ended: no other rank uses this GPU.
	Overlap bool
	// Graphs is passed to cuda.Device.NewOrder.
	Graphs cuda.GraphOrder
	// Order, if it is not nil, is the order of kernels of the caller's, which use the rings instead of the wire's own: see
	// Rings. It must live until Close has returned, and Run is not called.
	Order *cuda.Order
	// Tag is passed to links.Config. Wires without an Order use tags.Links.
	Tag int

	ended func() (bool, error) // tests have their own
}

// Wire implements wire.Wire for a GPU.
type Wire struct {
	cfg          Config         // as given to New
	rank         int            // in the communicator
	geo          geometry       // shape of the rings, the same on all ranks
	dev          *cuda.Device   // this rank's GPU
	host         *host.Device   // registers page-locked memory
	port         transport.Port // of the network; closed by Close
	deviceMemory bool           // the adapter reaches the GPU's memory
	overlap      bool           // small launches may start before the previous kernel has ended

	launcher *launcher.Launcher // its state: links, counters, ticket: layout below
	// latest is the operation that was enqueued last, to name it in errors.
	latest  atomic.Pointer[wire.Op]
	kernels *kernelTable // nil if the kernels are the caller's: Config.Order
	build   *builder     // of launch parameters; guarded by the caller of Run
	few     *fewArgs     // parameters of small launches; as build
	blocks  int          // that the GPU holds at once
	// start launches a kernel; tests have their own.
	start func(s *cuda.Stream, f *cuda.Function, cfg *cuda.Config, params []byte) error

	conn    *links.Links            // which peers have a link, and how one is made
	mu      sync.Mutex              // guards changes of links
	links   atomic.Pointer[[]*link] // of connected peers; the proxy reads it without a lock, so it is replaced as a whole
	by      []atomic.Pointer[link]  // the same by rank; nil: not connected
	pending sync.Map                // rank → *link between Offer and Ready

	idler    *idler         // lets the proxy sleep where nothing is to be done
	kicked   atomic.Bool    // something was launched since the proxy last looked
	captured atomic.Bool    // a launch was captured into a graph, which may be replayed at any time
	stopped  atomic.Bool    // Close has begun
	wake     chan struct{}  // wakes the proxy
	stop     chan struct{}  // closed by Close, once all kernels have ended
	tasks    sync.WaitGroup // the proxy and its helpers, which Close awaits

	cause    abort.Cause // why the wire has ended
	reported sync.Once   // of Config.OnFailure
	once     sync.Once   // of Close
}

var (
	_ wire.Wire    = (*Wire)(nil)
	_ wire.InPlace = (*Wire)(nil)
)

// The state in device memory.
func (w *Wire) linkAt(rank int) int64 { return int64(rank) * 64 }
func (w *Wire) countersAt(rank int) int64 {
	return w.linkAt(len(w.by)) + int64(rank)*w.geo.lanes*counterBytes
}
func (w *Wire) ticketAt() int64 { return (w.countersAt(len(w.by)) + 127) &^ 127 }

// New makes a Wire without peers. It is not collective.
func New(cfg Config) (*Wire, error) {
	dev, ok := cfg.Device.(*cuda.Device)
	if !ok {
		return nil, fmt.Errorf("%w: %v is not a CUDA device", collective.ErrInvalidArgument, cfg.Device.ID())
	}
	most := slices.Max(cfg.Bootstrap.Hosts())
	n := cfg.Bootstrap.WorldSize()
	w := &Wire{cfg: cfg, rank: cfg.Bootstrap.Rank(), geo: geometryOf(most + 1), dev: dev, few: new(fewArgs),
		by:      make([]atomic.Pointer[link], n),
		overlap: cfg.Overlap && dev.Properties().Major >= 9, blocks: residentBlocks * dev.Properties().SMs,
		idler: &idler{ask: make(chan struct{}, 1)}, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	if cfg.Blocks > 0 {
		w.blocks = min(w.blocks, cfg.Blocks)
	}
	w.start = func(s *cuda.Stream, f *cuda.Function, cfg *cuda.Config, params []byte) error {
		return s.LaunchInOrder(f, cfg, params, w.launcher.Order)
	}
	w.links.Store(new([]*link))
	w.build = &builder{geometry: w.geo, rank: w.rank, args: new(args), count: make([]int32, n), cursor: make([]int32, n),
		folded: make([]bool, n)}
	if err := w.load(); err != nil {
		return nil, errors.Join(err, w.free())
	}
	tag := tags.Links
	if cfg.Order != nil {
		tag = cfg.Tag
	}
	w.conn = links.New(links.Config{Bootstrap: cfg.Bootstrap, Port: w.port, Tag: tag, Timeout: cfg.Timeout,
		Offer: w.offer, Ready: w.ready})
	w.tasks.Go(w.serve)
	w.tasks.Go(func() { w.idler.serve(w.stop, w.noKernels) })
	w.watch()
	return w, nil
}

// load makes what the device and the network need.
func (w *Wire) load() (err error) {
	nics, err := w.cfg.Net.NICs()
	if err != nil {
		return err
	}
	if w.cfg.NIC >= len(nics) {
		return fmt.Errorf("%w: adapter %d of %d", collective.ErrInvalidArgument, w.cfg.NIC, len(nics))
	}
	w.deviceMemory = nics[w.cfg.NIC].DeviceMem && w.dev.Properties().RDMA
	if w.port, err = w.cfg.Net.Open(w.cfg.NIC); err != nil {
		return err
	}
	if w.host, err = host.Open(0); err != nil {
		return err
	}
	if w.launcher, err = launcher.New(w.dev, launcher.Config{State: w.ticketAt() + 128, Ticket: w.ticketAt(),
		Order: w.cfg.Order, Graphs: w.cfg.Graphs, Limit: w.cfg.OpTimeout}); err != nil {
		return err
	}
	if w.cfg.Order == nil {
		if w.kernels, err = loadKernels(w.launcher); err != nil {
			return err
		}
	}
	h := &w.build.head
	h.abort, h.links, h.rank = uint64(w.launcher.Block()), uint64(w.launcher.State.Ptr()), uint32(w.rank)
	h.lanes, h.slots, h.slotBytes = uint32(w.geo.lanes), uint32(w.geo.slots), uint32(w.geo.slotBytes)
	h.least = uint32(w.geo.least)
	return nil
}

func (w *Wire) offer(peer int, p transport.Peer) ([]byte, error) {
	l, err := w.newLink(peer, p)
	if err != nil {
		return nil, err
	}
	w.pending.Store(peer, l)
	return l.offer(), nil
}

func (w *Wire) ready(peer int, _ transport.Peer, offer []byte) error {
	x, _ := w.pending.LoadAndDelete(peer)
	l := x.(*link)
	err := l.accept(offer)
	w.mu.Lock()
	defer w.mu.Unlock()
	list := append(append([]*link(nil), *w.links.Load()...), l)
	w.links.Store(&list)
	w.by[peer].Store(l)
	return err
}

// Connect implements wire.Wire.
func (w *Wire) Connect(ctx context.Context, peers []int) error {
	missing := false
	for _, p := range peers {
		missing = missing || w.by[p].Load() == nil
	}
	if !missing {
		return nil
	}
	err := w.conn.Connect(ctx, peers)
	if err == nil {
		return nil
	}
	return &collective.Error{Comm: w.cfg.Name, Op: "connect", Rank: w.rank, Peer: fault.PeerOf(err),
		Err: bootstrap.Kind(err)}
}

// Run implements wire.Wire.
func (w *Wire) Run(s device.Stream, op wire.Op, p *wire.Phase) error {
	stream, ok := s.(*cuda.Stream)
	if !ok {
		return fmt.Errorf("%w: the stream belongs to %v, the wire to %v", collective.ErrInvalidArgument, s.Device().ID(),
			w.dev.ID())
	}
	if err := w.usable(p); err != nil {
		return err
	}
	if p.Fill != nil {
		return fmt.Errorf("%w: counts that are known when the phase runs", collective.ErrUnsupported)
	}
	w.build.tag = op.Tag
	if err := w.begin(stream, op); err != nil {
		return err
	}
	err := w.parts(p, func(p *wire.Phase) error {
		if err := w.build.build(p); err != nil || w.build.tasks == 0 {
			return err
		}
		return w.launch(stream)
	})
	w.launched()
	return err
}

// begin comes before the launches of an operation.
func (w *Wire) begin(s *cuda.Stream, op wire.Op) error {
	w.submitted(op)
	if w.captured.Load() {
		return nil
	}
	status, _, err := s.CaptureStatus()
	if err == nil && status != cuda.CaptureNone {
		w.captured.Store(true)
	}
	return err
}

// launched comes after the launches of an operation: it wakes the proxy, which looks for the slots that they post.
func (w *Wire) launched() {
	w.idler.launched()
	w.kicked.Store(true)
	wait.Signal(w.wake)
}

// ReducesInPlace implements wire.InPlace.
func (w *Wire) ReducesInPlace() bool { return true }

// Drain implements wire.Wire.
func (w *Wire) Drain(ctx context.Context) error {
	if err := w.launcher.Order.Wait(ctx); err != nil {
		return err
	}
	if w.launcher.Abort.Reported.Load() == 0 {
		return nil
	}
	return w.Err()
}

// Unfinished implements wire.Wire. A kernel whose wait was ended reports that, also if a graph replayed it.
func (w *Wire) Unfinished() bool { return w.launcher.Unfinished() }

// RecordMark identifies the phases that are enqueued so far, and reports whether the latest was captured into a graph.
func (w *Wire) RecordMark() (mark uint64, captured bool) { return w.launcher.Order.Mark() }

// RecordPassed returns the mark that the GPU has reached, and whether all phases have ended. ok is false if that is not
// known now. It calls the driver, so the proxy must not call it; other goroutines may.
func (w *Wire) RecordPassed() (mark uint64, all, ok bool) { return w.launcher.Passed() }

// Close implements wire.Wire.
func (w *Wire) Close() error {
	var err error
	w.once.Do(func() {
		w.Abort(&collective.Error{Comm: w.cfg.Name, Op: "communicator", Rank: w.rank, Peer: -1, Err: collective.ErrAborted})
		if err = w.launcher.Quiesce(); err != nil {
			return
		}
		w.stopped.Store(true)
		close(w.stop)
		w.tasks.Wait()
		err = w.free()
	})
	return err
}

func (w *Wire) free() error {
	errs := []error{device.CloseAll(w.conn)}
	for _, l := range *w.links.Load() {
		errs = append(errs, l.close())
	}
	w.pending.Range(func(_, l any) bool {
		errs = append(errs, l.(*link).close())
		return true
	})
	return errors.Join(append(errs, w.launcher.Free(), device.CloseAll(w.port), device.CloseAll(w.host))...)
}
