package executor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/verify"
)

// ExecutionPlan is a plan that this rank has loaded and can run.
type ExecutionPlan struct {
	e        *Executor
	plan     *plan.Plan
	program  *program
	counted  bool        // ops are limited by counts
	encoded  *gpuProgram // on a GPU
	hash     [sha256.Size]byte
	evenOnly bool
	// inRankOrder and once are the verifier's, and false for trusted plans.
	inRankOrder, once bool
	reduction         reduction
	engine            engine

	mu       sync.Mutex
	layouts  map[uint64]*layout
	capacity int64 // the chunk size that scratch has room for

	registered bool // see Registered
}

// Option changes how a plan is loaded.
type Option func(*options)

type options struct {
	trusted    bool
	registered bool
	reserve    uint64
}

// Trusted skips the verifier, for plans that are known to pass it. The structure is still checked and every access is
// still clamped.
func Trusted() Option { return func(o *options) { o.trusted = true } }

// Reserve allocates scratch for messages of up to size bytes in Load, instead of on the first such message.
func Reserve(size uint64) Option { return func(o *options) { o.reserve = size } }

// Registered promises that buffers which peers touch lie in registered memory (Executor.Register) on all ranks, so that
// a GPU needs no staging memory. Execute rejects other buffers. All ranks must give this option, or none.
func Registered() Option { return func(o *options) { o.registered = true } }

// verified caches the verifier's result for every plan that this process has checked. Ranks of one process, and
// communicators, share it.
var verified struct {
	sync.Mutex
	by map[[sha256.Size]byte]*verification
}

type verification struct {
	once   sync.Once
	report *verify.Report
	err    error
}

// maxVerified bounds the cache. When it is full, it is cleared, and plans are checked again.
const maxVerified = 1024

// Check is verify.Check with a cache of results for the process.
func Check(p *plan.Plan) (*verify.Report, error) { return check(p, sha256.Sum256(p.Encode())) }

func check(p *plan.Plan, hash [sha256.Size]byte) (*verify.Report, error) {
	verified.Lock()
	v := verified.by[hash]
	if v == nil {
		if len(verified.by) >= maxVerified || verified.by == nil {
			verified.by = map[[sha256.Size]byte]*verification{}
		}
		v = &verification{}
		verified.by[hash] = v
	}
	verified.Unlock()
	v.once.Do(func() { v.report, v.err = verify.Check(p, verify.Options{}) })
	return v.report, v.err
}

// Load prepares p to run. It is collective: all ranks load the same plans in the same order. p must not be changed
// afterwards. The error is the verifier's, with its counterexample, or an *collective.Error.
func (e *Executor) Load(ctx context.Context, p *plan.Plan, opts ...Option) (*ExecutionPlan, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	x := &ExecutionPlan{e: e, plan: p, registered: o.registered, layouts: map[uint64]*layout{}}
	// agree also sends a local error to the peers, so that none waits for a rank that has given up.
	err := x.prepare(&o)
	if agreed := x.agree(ctx, err); agreed != nil {
		return nil, agreed
	}
	if err := e.meet(ctx); err != nil {
		return nil, x.fail(0, -1, err)
	}
	remote := e.here != e.cfg.Bootstrap
	if remote {
		if err := x.agree(ctx, e.connect(ctx, x.program.distant)); err != nil {
			return nil, x.fail(0, -1, err)
		}
	}
	switch e.cfg.Device.ID().Kind {
	case device.Host:
		x.engine, err = newHostEngine(ctx, x)
	case device.CUDA:
		x.engine, err = newCUDAEngine(ctx, x)
	default:
		err = fmt.Errorf("%w: device %v", collective.ErrUnsupported, e.cfg.Device.ID())
	}
	if remote {
		if agreed := x.agree(ctx, err); err == nil && agreed != nil {
			return nil, errors.Join(x.fail(0, -1, agreed), x.close())
		}
	}
	if err != nil {
		return nil, x.fail(0, -1, err)
	}
	if err := e.add(x); err != nil {
		_ = x.close()
		return nil, x.fail(0, -1, err)
	}
	if size, ok := x.firstSize(o.reserve); ok {
		if err := x.Reserve(ctx, size); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// prepare does the part of Load that needs no peer.
func (x *ExecutionPlan) prepare(o *options) error {
	p := x.plan
	if len(p.GPUs) != x.e.size {
		return x.fail(0, -1, invalid("the plan is for %d ranks, the communicator has %d", len(p.GPUs), x.e.size))
	}
	if x.e.hosts != nil {
		if err := reaches(p, x.e.hosts); err != nil {
			return x.fail(0, -1, err)
		}
	}
	if o.trusted {
		if err := p.Validate(&plan.Capacity); err != nil {
			return err
		}
	}
	x.hash = sha256.Sum256(p.Encode())
	x.evenOnly = p.MovesChunks()
	x.reduction, x.counted = reductionOf(p), p.Counted()
	if !o.trusted {
		report, err := check(p, x.hash)
		if err != nil {
			return err
		}
		x.evenOnly, x.inRankOrder, x.once = report.EvenOnly, report.InRankOrder, report.Once
		if x.reduction.named { // the operator of the output: other reductions do not count
			x.reduction.operator, x.reduction.mixed = report.Operator, false
		}
	}
	var err error
	if x.program, err = compile(p, x.e.rank, x.e.hosts); err == nil && x.e.cfg.Device.ID().Kind == device.CUDA {
		x.encoded, err = encode(x.program, p.Period())
	}
	return err
}

// repeated is a counterexample that rank 0 reports in full.
type repeated struct{ *verify.Violation }

func (e *repeated) Error() string { return e.Summary() + " (rank 0 reports the whole counterexample)" }
func (e *repeated) Unwrap() error { return e.Violation }

// agree compares the plan with all peers and reports this rank's error, if any, to them.
func (x *ExecutionPlan) agree(ctx context.Context, mine error) error {
	word := append([]byte{1}, x.hash[:]...)
	if mine != nil {
		word = append([]byte{0}, mine.Error()[:min(len(mine.Error()), 1000)]...)
	}
	all, err := x.e.cfg.Bootstrap.AllGather(ctx, word)
	var wrong *verify.Violation
	switch {
	case errors.As(mine, &wrong) && x.e.rank > 0 && err == nil && bytes.Equal(all[0], word):
		return &repeated{wrong} // rank 0 has the same error
	case mine != nil:
		return mine
	}
	if err != nil {
		return x.fail(0, -1, err)
	}
	for r, w := range all {
		switch {
		case len(w) > 0 && w[0] == 0:
			return x.fail(0, r, fmt.Errorf("rank %d has failed: %s", r, w[1:]))
		case !bytes.Equal(w, word):
			return x.fail(0, r, mismatch("rank %d loads another plan", r))
		}
	}
	return nil
}

// defaultReserve is the message size that scratch has room for from the start, unless the plan's maximum is smaller.
const defaultReserve = 1 << 20

// firstSize returns the message size for which Load reserves scratch; want 0 means the default.
func (x *ExecutionPlan) firstSize(want uint64) (uint64, bool) {
	p := x.plan
	want = cmp.Or(want, min(p.MaxSize, defaultReserve))
	unit := uint64(len(p.GPUs))
	if x.evenOnly {
		unit = p.EvenUnit()
	}
	down := want - want%unit
	for _, size := range []uint64{want, down + unit, down, p.MinSize, p.MinSize - p.MinSize%unit + unit} {
		if l, err := x.layout(size); err == nil && l.Chunk > 0 {
			return size, true
		}
	}
	return 0, false
}

// Plan returns the plan. It must not be changed.
func (x *ExecutionPlan) Plan() *plan.Plan { return x.plan }

// Reserve allocates scratch for messages of size bytes (see the option Reserve). It is collective.
func (x *ExecutionPlan) Reserve(ctx context.Context, size uint64) error {
	l, err := x.layout(size)
	if err != nil {
		return x.fail(0, -1, err)
	}
	return x.grow(ctx, l.Chunk)
}

// Poison fills scratch with a byte, for tests: a plan that reads scratch before it writes it then computes a wrong
// result, whatever earlier launches have left there. It reserves scratch for messages of that size. It is collective,
// and no launch may be in flight.
func (x *ExecutionPlan) Poison(ctx context.Context, message uint64, with byte) error {
	if err := x.Reserve(ctx, message); err != nil {
		return err
	}
	if err := x.e.cfg.Bootstrap.Barrier(ctx); err != nil { // the peers' launches have ended, too
		return err
	}
	if at, n := x.engine.ownScratch(); n > 0 {
		if err := device.Fill(x.e.cfg.Device, at, with, n); err != nil {
			return err
		}
	}
	return x.e.cfg.Bootstrap.Barrier(ctx)
}

// grow makes scratch fit chunk. All ranks call it with the same chunk.
func (x *ExecutionPlan) grow(ctx context.Context, chunk int64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if chunk <= x.capacity {
		return nil
	}
	if x.program.scratch {
		if err := x.engine.reserve(ctx, chunk); err != nil {
			return x.fail(0, -1, fmt.Errorf("scratch for chunks of %d bytes: %w", chunk, err))
		}
	}
	x.capacity = chunk
	return nil
}

const maxLayouts = 64

// layout is a plan's layout for a message, with values that launches derive from it.
type layout struct {
	*plan.Layout
	blocks  bool     // input and output are blocks of Period chunks; false for some user-defined collectives
	sizes   [2]int64 // of this rank's input and output
	largest [2]int64 // of any rank's
}

func (x *ExecutionPlan) newLayout(l *plan.Layout) *layout {
	_, known := collectives[x.plan.Collective]
	out := &layout{Layout: l, blocks: known}
	for k, t := range [2]plan.BufferType{plan.Input, plan.Output} {
		out.sizes[k] = l.Size(x.e.rank, t)
		for r := range x.plan.GPUs {
			out.largest[k] = max(out.largest[k], l.Size(r, t))
		}
	}
	return out
}

// layout returns the plan's layout for a message, or the reason why the plan does not take it.
func (x *ExecutionPlan) layout(size uint64) (*layout, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if l := x.layouts[size]; l != nil {
		return l, nil
	}
	pl, err := x.plan.NewLayout(size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", collective.ErrInvalidArgument, err)
	}
	if x.evenOnly && !pl.Even() {
		return nil, invalid("the plan takes only messages that divide into equal chunks of whole units of %d bytes; %d "+
			"bytes do not", x.plan.Alignment, size)
	}
	if len(x.layouts) >= maxLayouts {
		clear(x.layouts)
	}
	l := x.newLayout(pl)
	x.layouts[size] = l
	return l, nil
}

// Takes returns nil if the plan can execute a message of that many bytes (as in plan.Plan.MinSize), type and operator,
// and the reason otherwise.
func (x *ExecutionPlan) Takes(message uint64, t datatype.Type, op datatype.Op) error {
	_, err := x.takes(message, t, op)
	return err
}

// takes is Takes, and returns the layout.
func (x *ExecutionPlan) takes(message uint64, t datatype.Type, op datatype.Op) (*layout, error) {
	if !t.Valid() || !op.Valid() {
		return nil, invalid("type %v, operator %v", t, op)
	}
	if x.plan.Alignment%t.Size() != 0 {
		return nil, invalid("the plan divides into units of %d bytes, which do not hold whole elements of %v",
			x.plan.Alignment, t)
	}
	if err := x.reduction.takes(op); err != nil {
		return nil, err
	}
	l, err := x.layout(message)
	if err == nil && l.Block%t.Size() != 0 {
		return nil, invalid("a message of %d bytes has blocks of %d bytes, which do not hold whole elements of %v",
			message, l.Block, t)
	}
	return l, err
}

func (x *ExecutionPlan) close() error { return x.engine.close() }
