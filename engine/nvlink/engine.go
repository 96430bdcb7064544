package nvlink

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
	"github.com/goccl/goccl/kernels"
)

// Config configures an Engine. Where Names has the ranks' numbers in a communicator of several hosts, OnFailure is
// called for every failure on the device, else for failures that no peer can detect.
type Config struct {
	collective.Job
	// Sharing is the most ranks on one GPU, counted over all hosts of the communicator; 0: the ranks of Bootstrap.
	Sharing int
}

// Engine runs the collectives of one rank.
type Engine struct {
	collective.Plain

	dev           *cuda.Device        // this rank's GPU; not closed by the engine
	name          string              // the communicator's, for errors
	rank, size    int                 // in the communicator
	timeout       time.Duration       // of an operation's waits; 0: only a death or an abort ends them
	maxBlocks     [2]int64            // of a packet kernel for any number of ranks, and of one made for this number
	lamportBlocks int64               // of a Lamport kernel
	overlaps      bool                // whether a launch may start before the previous kernel has ended
	slotUnits     int64               // 16-byte units of a slot: the most threads of a block
	boot          bootstrap.Bootstrap // of the ranks of this host
	arena         *share.Arena        // the memory of each rank that kernels of all ranks address
	later         bool                // the arena has only the core of its pieces
	pieces        *share.Pieces       // nil: the arena has all
	launcher      *launcher.Launcher  // orders all work of the engine, because kernels share epochs
	latest        latest              // request
	kernels       kernelTable         // fixed once loaded
	ringKernels   ringTable           // rings' kernels, likewise
	directKernels directKernels       // kernels that access peers' windows and buffers, likewise
	table         *selection          // which algorithm a size gets; the same on all ranks
	tuning        string              // the file with the table; "": an embedded one
	tableName     string              // "none": rules in place of a table
	gpu           GPU                 // of all ranks
	links         []Pair              // of all pairs of ranks
	windows       *share.Windows      // the user's; nil: they are not used
	buffers       *share.Buffers      // of users, shared at their first use; nil: they are not used
	copyMode      copyMode            // of windows
	side          *cuda.Side          // for own slices of windows; made with the first one
	tokens        *tokens             // nil: copies are between barriers of kernels only
	stage         int64               // bytes of a stage in the arena; 0: there is none
	exact         collective.Exact    // on what the bits of a reduction may depend; the same on all ranks

	// Parameters of the next launch; the constant fields are filled once. They are separate objects without Go
	// pointers, because C reads them.
	args       *collectiveArgs                // of packet and Lamport kernels
	areas      [numProtocols][maxRanks]uint64 // values of window for it, with up to coreBlocks, and with more blocks
	wide       [numProtocols][maxRanks]uint64 // as areas, beyond coreBlocks; 0 until all ranks know the pieces
	reached    [numPieces]ranks               // whose pieces are known
	ring       *collectiveArgs                // of ring kernels
	directArgs *directArgs                    // of direct kernels
	p2p        *p2pArgs                       // of messages through slots
	few        *p2pFewArgs                    // of at most a few messages, whose lists are inline
	stream     *streamArgs                    // of large messages through stages

	counted *allToAllVArgs // of all-to-all-v with counts in device memory

	ringBlocks  int64  // the maximum number of ring channels
	own, call   limits // of the communicator; of the current request
	p2pChannels int    // the maximum number of channels of a lane of messages
	streams     int    // the maximum number of channels of a stream, each of which has two blocks
	mapped      bool   // streams go into mapped buffers: the same on all ranks

	batch batch       // messages of the current request
	cause abort.Cause // why the engine has ended; the first wins
	once  sync.Once   // of Close

	names   []int                                  // Config.Names
	room    int                                    // the result of Room
	failed  func(error)                            // Config.OnFailure
	explain func(*collective.Error) *fault.Verdict // Config.Explain, which must not wait
	failing sync.Once                              // of failed: it is called once
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
		return nil, fault.Blame("nvlink", bootstrap.NameOf(cfg.Bootstrap, r), "%w: %w", collective.ErrUnsupported, err)
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
		names: cfg.Names, failed: cfg.OnFailure, explain: cfg.Explain, tuning: env.Tuning, exact: env.Exact,
		maxBlocks:     [2]int64{terms.packetBlocks(1, maxBlocks), terms.packetBlocks(2, maxBlocks)},
		lamportBlocks: terms.packetBlocks(2, lamportBlocks), ringBlocks: terms.ringBlocks(),
		own: terms.limits(), p2pChannels: terms.p2pChannels(n),
		overlaps: terms.sharing == 1 && dev.Properties().Major >= 9 && env.Overlap,
		args:     new(collectiveArgs), ring: new(collectiveArgs), directArgs: new(directArgs), p2p: new(p2pArgs),
		few:    new(p2pFewArgs),
		stream: new(streamArgs)}
	if e.arena, err = selectLink(ctx, cfg.Bootstrap, dev, &terms); err != nil {
		return nil, err
	}
	e.later = terms.later()
	if terms.copies != copyNever && n > 1 && terms.gpu.Link < HostMemory {
		e.windows, e.copyMode = share.NewWindows(cfg.Bootstrap, tags.Window, dev, waitLimit(&cfg)), terms.copies
		if terms.memOps {
			e.tokens, e.stage = new(tokens), terms.stage()
		}
	}
	if !terms.noRegister && n > 1 && terms.gpu.Link == NVLink {
		e.buffers = share.NewBuffers(cfg.Bootstrap, tags.Buffers, dev)
	}
	blocks := 2 * streamChannels
	if e.mapped = e.buffers != nil && terms.gpu.Major >= 9; e.mapped {
		blocks, e.stream.stages = min(blocks, terms.sms-spareSMs), streamStages
	}
	e.streams = int(max(1, terms.share(blocks)/2))
	if err := e.choose(&terms, env.Algorithms); err != nil {
		return nil, errors.Join(err, e.free())
	}
	if err := e.load(cfg.GraphOrder()); err != nil {
		return nil, errors.Join(err, e.free())
	}
	e.makePieces(&cfg)
	e.fillConstants()
	e.watchReports(cfg.StallWarning)
	return e, nil
}

// choose builds the selection for these ranks.
func (e *Engine) choose(t *terms, forced string) error {
	table, err := LoadTable(e.tuning, t.gpu, e.size)
	if err != nil {
		return err
	}
	e.gpu, e.links = t.gpu, t.links.pairs()
	e.tableName = fmt.Sprintf("%s, %d ranks", table.GPU, table.Ranks)
	if e.table, err = table.compile(); err != nil {
		return err
	}
	if t.gpu.Link > NVLink {
		if err := e.table.avoidLL128(); err != nil {
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
	var err error
	e.launcher, err = launcher.New(e.dev, launcher.Config{State: stateBytes, Ticket: stateTicket, Graphs: graphs,
		Limit: e.timeout})
	if err != nil {
		return err
	}
	groups := []string{"collective", "lamport"}
	if e.table.noLL128 {
		groups = append(groups, "pcie")
	}
	where := map[string]*cuda.Module{}
	for _, g := range groups {
		m, err := launcher.Load(e.dev, g)
		if err != nil {
			return err
		}
		for _, name := range kernels.Names(g) {
			where[name] = m
		}
	}
	if err := e.kernels.load(where, e.size, e.table.noLL128); err != nil {
		return err
	}
	if e.mapped {
		err = e.kernels.stream.SetMaxDynamicShared(streamStages * streamStage)
	}
	return errors.Join(err, e.loadChosen())
}

func (e *Engine) fillConstants() {
	n, l := e.size, e.layout()
	for p := range e.areas {
		for r := range n {
			e.areas[p][r] = uint64(e.arena.Ptr[r].Add(l.offset(piece(p))))
		}
	}
	state, block := uint64(e.launcher.State.Ptr()), uint64(e.launcher.Block())
	e.args.abort, e.args.epochs, e.args.rank, e.args.nranks = block, state, uint32(e.rank), uint32(n)
	e.p2p.abort, e.p2p.counters, e.p2p.rank, e.p2p.nranks = block, state+stateCounters, uint32(e.rank), uint32(n)
	e.p2p.width = uint32(e.p2pChannels)
	e.few.p2pHead = e.p2p.p2pHead
	e.counted = &allToAllVArgs{p2pHead: e.p2p.p2pHead}
	e.stream.abort, e.stream.counters, e.stream.rank, e.stream.nranks = block, state+stateStream, uint32(e.rank), uint32(n)
	e.args.slotBytes, e.slotUnits = uint32(slotBytes(n)), slotBytes(n)/16
	if e.tokens != nil {
		e.tokens.place(e)
	}
	*e.ring = *e.args
	e.ring.window, e.ring.epochs, e.ring.flagsOffset = e.stream.window, state+stateRing, uint32(streamBytes(n))
	d := e.directArgs
	d.collectiveArgs = *e.ring
	d.root, d.flagsOffset, d.slotBytes = everyone, uint32(streamBytes(n)+ringFlagBytes(n)), uint32(directPiece(n))
	if !e.later {
		for k := range numPieces {
			e.locate(k, e.arena.Ptr, l.offset(k))
		}
	}
}

// Enqueue implements collective.Engine. Few functions lie between a call and its launch.
func (e *Engine) Enqueue(seq uint64, reqs []collective.Request) error {
	e.latest.set(seq, reqs[0].Called())
	for i := 0; i < len(reqs); {
		r := &reqs[i]
		k := i + 1
		var err error
		e.call = e.own.of(r)
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

// fail names the request in an error. A wait that an abort has ended gets the cause of the abort.
func (e *Engine) fail(r *collective.Request, seq uint64, err error) error {
	x := &collective.Error{Comm: e.name, Op: r.Called().String(), Rank: e.rank, Peer: -1, Seq: seq, Err: err}
	if cause := fault.Of(e.cause.Err()); cause != nil && errors.Is(err, collective.ErrAborted) {
		x.Peer, x.Err, x.Verdict = cause.Peer, cause.Err, cause.Verdict // with the numbers of Config.Names
		return x
	}
	if inner, ok := err.(*collective.Error); ok {
		x.Peer, x.Err = inner.Peer, inner.Err
		return e.renumbered(x)
	}
	x = e.renumbered(x)
	x.Peer = fault.PeerOf(err) // package share names ranks as the bootstrap does
	return x
}

// Abort implements collective.Engine.
func (e *Engine) Abort(cause error) {
	if e.cause.Set(cause) {
		e.windows.Abandon()
		e.pieces.Abandon()
		e.buffers.Abandon()
		e.launcher.Raise()
		e.tokens.raise()
	}
}

// Err implements collective.Engine.
func (e *Engine) Err() error {
	if err := e.cause.Err(); err != nil {
		return err
	}
	if err := e.launcher.Reported(e.report); err != nil {
		if e.Abort(err); e.failed != nil && (e.names != nil || errors.Is(err, collective.ErrInvalidArgument)) {
			e.failing.Do(func() { e.failed(err) })
		}
	}
	return e.cause.Err()
}

// SeesAborts implements collective.Engine: kernels poll their own rank's abort word only.
func (e *Engine) SeesAborts() bool { return false }

// Unfinished implements collective.Engine. A kernel whose wait was ended reports that, also if a graph replayed it.
func (e *Engine) Unfinished() bool { return e.launcher.Unfinished() || e.tokens.Cut() }

// watchReports polls for waits that have timed out, so that AsyncError and the peers' kernels get the error without a
// call, and for work that does not end.
func (e *Engine) watchReports(warnAfter time.Duration) {
	s := launcher.Stall[uint64]{After: warnAfter}
	e.launcher.Watch(100*time.Millisecond, func() bool {
		if e.tokens != nil {
			if p := e.tokens.late(time.Now(), e.timeout); p >= 0 {
				e.launcher.Abort.Report(abort.Timeout, p)
			}
		}
		if e.Err() != nil {
			return false
		}
		e.buffers.Sweep(func() bool { return launcher.Quiet(e.dev) })
		seq := e.latest.seq.Load()
		if since := s.Look(time.Now(), seq, e.launcher.Busy); since > 0 {
			e.warnOfStall(seq, since)
		}
		return true
	})
}

// Close implements collective.Engine.
func (e *Engine) Close() error {
	var err error
	e.once.Do(func() {
		e.launcher.StopWatch() // from here on only Close aborts
		e.Abort(&collective.Error{Comm: e.name, Op: "communicator", Rank: e.rank, Peer: -1, Err: collective.ErrAborted})
		if err = e.launcher.Quiesce(); err != nil {
			e.windows.Halt()
			e.pieces.Halt()
			e.buffers.Halt()
			return
		}
		err = e.free()
	})
	return err
}

func (e *Engine) free() error {
	e.tokens.leave(true)
	return errors.Join(e.windows.Close(), e.buffers.Close(), e.pieces.Close(), device.CloseAll(e.side),
		device.CloseAll(e.arena), e.launcher.Free())
}
