package nvlink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/kernels"
	"github.com/goccl/goccl/share"
)

// Config configures an Engine.
type Config struct {
	Bootstrap bootstrap.Bootstrap
	// Device must be a *cuda.Device.
	Device device.Device
	// Timeout bounds the time for which calls wait for other ranks; 0 is 10 s.
	Timeout time.Duration
	// OpTimeout bounds each wait of a kernel for its peers; 0 is no bound.
	OpTimeout time.Duration
	// StallWarning is the time after which a warning is logged for work that has not ended; 0 disables it. Name is the
	// communicator's, for the log and for errors.
	StallWarning time.Duration
	Name         string
	// OnFailure, when not nil, is called once, from any goroutine, if work of this rank failed on the device for a reason
	// that no peer can detect.
	OnFailure func(cause error)
	// Names, when not nil, are the ranks' numbers in a communicator of several hosts, for errors. OnFailure is then
	// called for every failure on the device.
	Names []int
	// Sharing is the most ranks on one GPU, those of a communicator of several hosts included; 0: those of Bootstrap.
	Sharing int
	// Settings are those of the environment; nil: as it is now.
	Settings *setting.Config
	// SeparateGraphs disables the order of graph launches among each other and with eager work, UnorderedCaptures also
	// that of work on several streams of one capture.
	SeparateGraphs, UnorderedCaptures bool
}

// Engine runs the collectives of one rank.
type Engine struct {
	collective.Plain

	dev         *cuda.Device
	name        string
	rank, size  int
	timeout     time.Duration
	maxBlocks   [2]int64 // of a packet kernel for any number of ranks, and of one made for this number
	whole       bool     // whether a launch may use all SMs: no rank shares its GPU or has a limit of blocks
	overlaps    bool     // whether a launch may start before the previous kernel has ended
	slotUnits   int64    // 16-byte units of a slot: the most threads of a block
	boot        bootstrap.Bootstrap
	arena       *share.Arena
	state       device.Allocation
	abort       *abortBlock
	modules     []*cuda.Module
	kernels     kernelTable // fixed once loaded
	ringKernels ringTable
	table       *selection
	tuning      string // the file with the table; "": an embedded one
	tableName   string
	gpu         GPU            // of all ranks
	links       []Pair         // of all pairs of ranks
	windows     *share.Windows // the user's; nil: they are not used
	copyMode    copyMode       // of windows
	side        *cuda.Side     // for own slices of windows; made with the first one

	// Parameters of the next launch; the constant fields are filled once. They are separate objects without Go
	// pointers, because C reads them.
	args   *collectiveArgs
	areas  [numProtocols][maxRanks]uint64 // values of window for it
	ring   *collectiveArgs
	p2p    *p2pArgs
	few    *p2pFewArgs
	stream *p2pArgs

	counted *allToAllVArgs

	ringBlocks  int64  // the maximum number of ring channels
	least       int64  // the minimum number of blocks, where there is enough to do
	call        limits // of the current request
	p2pChannels int    // the maximum number of channels of a lane of messages

	batch batch       // messages of the current request
	order *cuda.Order // orders this rank's work over all streams: kernels share epochs and must run one after the other
	cause atomic.Pointer[error]
	gate  sync.RWMutex // read-locked while the abort block is accessed
	freed bool         // guarded by gate: the abort block and the order are freed
	cut   bool         // guarded by gate: the result of Unfinished at that time
	once  sync.Once

	names   []int       // Config.Names
	room    int         // the result of Room
	failed  func(error) // Config.OnFailure
	failing sync.Once

	stop  chan struct{}
	watch sync.WaitGroup
}

// New sets up the arenas. It is collective.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	dev, ok := cfg.Device.(*cuda.Device)
	if !ok {
		return nil, fmt.Errorf("%w: %v is not a CUDA device", collective.ErrInvalidArgument, cfg.Device.ID())
	}
	n, rank := cfg.Bootstrap.WorldSize(), cfg.Bootstrap.Rank()
	if n > maxRanks {
		return nil, fmt.Errorf("%w: %d ranks; the GPU engine takes up to %d ranks of one NVLink domain",
			collective.ErrUnsupported, n, maxRanks)
	}
	if r, err := bootstrap.OtherHost(cfg.Bootstrap); err != nil {
		return nil, &collective.Error{Comm: cfg.Name, Op: "init", Rank: rank, Peer: r,
			Err: fmt.Errorf("%w: %w", collective.ErrUnsupported, err)}
	}
	env := cfg.Settings
	if env == nil {
		var err error
		if env, err = setting.Read(); err != nil {
			return nil, fmt.Errorf("%w: %w", collective.ErrInvalidArgument, err)
		}
	}
	terms, err := meetRanks(ctx, cfg.Bootstrap, dev, env)
	if err != nil {
		return nil, err
	}
	terms.sharing = max(terms.sharing, cfg.Sharing)
	room := 0
	if cfg.Names != nil && n > 1 {
		room = terms.leaveRoom()
	}
	e := &Engine{name: cfg.Name, boot: cfg.Bootstrap, room: room, dev: dev, rank: rank, size: n, timeout: cfg.OpTimeout,
		names: cfg.Names, failed: cfg.OnFailure, tuning: env.Tuning,
		maxBlocks: [2]int64{terms.packetBlocks(1), terms.packetBlocks(2)}, ringBlocks: terms.ringBlocks(), least: terms.least,
		p2pChannels: terms.p2pChannels(n), whole: terms.sharing == 1 && terms.blocks == 0,
		overlaps: terms.sharing == 1 && dev.Properties().Major >= 9 && env.Overlap,
		args:     new(collectiveArgs), ring: new(collectiveArgs), p2p: new(p2pArgs), few: new(p2pFewArgs),
		stream: new(p2pArgs), stop: make(chan struct{})}
	if e.arena, err = climb(ctx, cfg.Bootstrap, dev, &terms); err != nil {
		return nil, err
	}
	if terms.copies != copyNever && n > 1 && terms.gpu.Link < HostMemory {
		e.windows, e.copyMode = share.NewWindows(cfg.Bootstrap, tags.Window, dev, waitLimit(&cfg)), terms.copies
	}
	e.stream.streams = uint32(max(1, terms.share(2*streamChannels)/2))
	if err := e.choose(&terms, env.Algorithms); err != nil {
		return nil, errors.Join(err, e.free())
	}
	if err := e.load(cfg.GraphOrder()); err != nil {
		return nil, errors.Join(err, e.free())
	}
	e.fillConstants()
	e.watch.Add(1)
	go e.watchReports(&stall{after: cfg.StallWarning, name: cfg.Name})
	return e, nil
}

// choose builds the selection for these ranks.
func (e *Engine) choose(t *terms, forced string) error {
	table, err := LoadTable(e.tuning, t.gpu, e.size)
	if err != nil {
		return err
	}
	e.gpu, e.links, e.batch.from = t.gpu, t.ladder.pairs(), streamFrom
	e.tableName = fmt.Sprintf("%s, %d ranks", table.GPU, table.Ranks)
	if e.table, err = table.compile(); err != nil {
		return err
	}
	if t.gpu.Link > NVLink {
		e.batch.from = slowStreamFrom
		if err := e.table.avoidLines(); err != nil {
			return err
		}
	}
	if table.standIn && t.gpu.Link == NVLink && e.rank == 0 && e.size > 1 {
		warnOnce("no tuning table is for these GPUs; goccl tune measures one for GOCCL_TUNING", "gpu", t.gpu.Name, "ranks",
			e.size, "instead", table.Note)
	}
	return e.table.force(forced, false)
}

// load initializes this rank's device resources.
func (e *Engine) load(graphs cuda.GraphOrder) error {
	groups := []string{"collective"}
	if e.table.noLines {
		groups = append(groups, "pcie")
	}
	p, where := e.dev.Properties(), map[string]*cuda.Module{}
	for _, g := range groups {
		image, err := kernels.Image(g, p.Major, p.Minor)
		if err != nil {
			return fmt.Errorf("%w: %w", collective.ErrUnsupported, err)
		}
		m, err := e.dev.LoadModule(image)
		if err != nil {
			return err
		}
		e.modules = append(e.modules, m)
		for _, name := range kernels.Names(g) {
			where[name] = m
		}
	}
	if err := e.kernels.load(where, e.size, e.table.noLines); err != nil {
		return err
	}
	if err := e.loadChosen(); err != nil {
		return err
	}
	var err error
	if e.state, err = e.dev.Alloc(stateBytes); err != nil {
		return err
	}
	if e.order, err = e.dev.NewOrder(e.state.Ptr().Add(stateTicket), graphs); err != nil {
		return err
	}
	e.abort, err = newAbortBlock(e.dev, e.timeout)
	return err
}

func (e *Engine) fillConstants() {
	n, l := e.size, e.layout()
	for r := range n {
		e.areas[ll128][r] = uint64(e.arena.Ptr[r])
		e.areas[ll][r] = uint64(e.arena.Ptr[r].Add(l.lineBytes()))
		e.p2p.window[r] = uint64(e.arena.Ptr[r].Add(l.p2pOffset()))
		e.stream.window[r] = uint64(e.arena.Ptr[r].Add(l.streamOffset()))
	}
	state := uint64(e.state.Ptr())
	e.args.abort, e.args.epochs, e.args.rank, e.args.nranks = e.abort.ptr(), state, uint32(e.rank), uint32(n)
	e.p2p.abort, e.p2p.counters, e.p2p.rank, e.p2p.nranks = e.abort.ptr(), state+stateCounters, uint32(e.rank), uint32(n)
	e.few.p2pHead = e.p2p.p2pHead
	e.counted = &allToAllVArgs{p2pHead: e.p2p.p2pHead}
	e.stream.abort, e.stream.counters, e.stream.rank, e.stream.nranks = e.abort.ptr(), state+stateStream, uint32(e.rank),
		uint32(n)
	e.args.slotBytes, e.slotUnits = uint32(slotBytes(n)), slotBytes(n)/16
	*e.ring = *e.args
	e.ring.window, e.ring.epochs, e.ring.flagsOffset = e.stream.window, state+stateRing, uint32(streamBytes(n))
}

// Enqueue implements collective.Engine. Few functions lie between a call and its launch.
func (e *Engine) Enqueue(seq uint64, reqs []collective.Request) error {
	e.abort.submitted(seq, &reqs[0])
	for i := 0; i < len(reqs); {
		r := &reqs[i]
		k := i + 1
		var err error
		e.call = limitsOf(r, e.least)
		if s, ok := r.Stream.(*cuda.Stream); !ok {
			err = fmt.Errorf("%w: the stream belongs to %v, the communicator to %v", collective.ErrInvalidArgument,
				r.Stream.Device().ID(), e.dev.ID())
		} else if r.PointToPoint() {
			for k < len(reqs) && reqs[k].PointToPoint() {
				k++
			}
			err = e.sendRecv(reqs[i:k], s)
		} else if r.Count != 0 || countless(r.Collective) {
			err = collectives[r.Collective](e, r, s)
		}
		if err != nil {
			return e.fail(r, seq+uint64(i), err)
		}
		i = k
	}
	return nil
}

func (e *Engine) fail(r *collective.Request, seq uint64, err error) error {
	peer := share.PeerOf(err)
	if inner, ok := err.(*collective.Error); ok {
		peer, err = inner.Peer, inner.Err
	}
	return e.renumbered(&collective.Error{Comm: e.name, Op: r.Called().String(), Rank: e.rank, Peer: peer, Seq: seq,
		Err: err})
}

// Abort implements collective.Engine.
func (e *Engine) Abort(cause error) {
	if e.cause.CompareAndSwap(nil, &cause) {
		e.windows.Abandon()
		e.gate.RLock()
		defer e.gate.RUnlock()
		if !e.freed {
			e.abort.raise()
		}
	}
}

// Err implements collective.Engine.
func (e *Engine) Err() error {
	if p := e.cause.Load(); p != nil {
		return *p
	}
	if err := e.report(); err != nil {
		if e.Abort(err); e.failed != nil && (e.names != nil || errors.Is(err, collective.ErrInvalidArgument)) {
			e.failing.Do(func() { e.failed(err) })
		}
		return *e.cause.Load()
	}
	return nil
}

// SeesAborts implements collective.Engine: kernels poll their own rank's abort word only.
func (e *Engine) SeesAborts() bool { return false }

// Unfinished implements collective.Engine. A kernel whose wait was ended reports that, also if a graph replayed it.
func (e *Engine) Unfinished() bool {
	e.gate.RLock()
	defer e.gate.RUnlock()
	if e.freed {
		return e.cut
	}
	return e.unfinished()
}

// unfinished requires gate.
func (e *Engine) unfinished() bool {
	if e.abort.word.reported.Load() != 0 {
		return true
	}
	idle, err := e.order.Idle()
	return err != nil || !idle
}

// watchReports polls for waits that have timed out, so that AsyncError and the peers' kernels get the error without a
// call, and for work that does not end.
func (e *Engine) watchReports(w *stall) {
	defer e.watch.Done()
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if e.Err() != nil {
				return
			}
			w.look(e)
		case <-e.stop:
			return
		}
	}
}

// Close implements collective.Engine.
func (e *Engine) Close() error {
	var err error
	e.once.Do(func() {
		e.stopWatching()
		e.Abort(&collective.Error{Comm: e.name, Op: "communicator", Rank: e.rank, Peer: -1, Err: collective.ErrAborted})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err = e.order.Wait(ctx); ctx.Err() != nil {
			// The memory is leaked: unmapping memory that a kernel polls would end the process's work on the GPU.
			e.windows.Halt()
			err = fmt.Errorf("a kernel still runs, and its memory is kept: %w", err)
			return
		}
		e.gate.Lock()
		e.cut, e.freed = e.unfinished(), true
		e.gate.Unlock()
		err = errors.Join(err, e.free())
	})
	return err
}

func (e *Engine) free() error {
	errs := []error{e.windows.Close()}
	if e.side != nil {
		errs = append(errs, e.side.Close())
	}
	if e.arena != nil {
		errs = append(errs, e.arena.Close())
	}
	for _, m := range e.modules {
		errs = append(errs, m.Close())
	}
	errs = append(errs, e.ringKernels.close())
	if e.abort != nil {
		errs = append(errs, e.abort.close())
	}
	if e.state != nil {
		errs = append(errs, e.state.Close())
	}
	if e.order != nil {
		errs = append(errs, e.order.Close())
	}
	return errors.Join(errs...)
}
