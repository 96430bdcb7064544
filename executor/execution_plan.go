package executor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"sync"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/plan"
)

// ExecutionPlan is a plan that this rank is ready to run.
type ExecutionPlan struct {
	e         *Executor
	plan      *plan.Plan
	program   *program
	encoded   *gpuProgram // on a GPU
	hash      [sha256.Size]byte
	evenOnly  bool
	reduction reduction
	engine    engine

	mu       sync.Mutex
	layouts  map[uint64]*layout
	capacity int64 // the chunk that scratch has room for

	registered bool // see Registered
}

// Option changes how a plan is loaded.
type Option func(*options)

type options struct {
	trusted    bool
	registered bool
	reserve    uint64
}

// Trusted skips the verifier, for plans that are known to pass it. Structure is still checked and every access still clamped.
func Trusted() Option { return func(o *options) { o.trusted = true } }

// Reserve makes room for messages of up to size bytes at once, instead of when the first such message comes.
func Reserve(size uint64) Option { return func(o *options) { o.reserve = size } }

// Registered promises that buffers which peers touch lie in registered memory (Executor.Register) on all ranks, so that a GPU need not keep memory
// for staging. Execute refuses others. All ranks must promise it, or none.
func Registered() Option { return func(o *options) { o.registered = true } }

// verified remembers the outcome for every plan that this process has checked, so that ranks of one process, and communicators, share the work.
var verified struct {
	sync.Mutex
	by map[[sha256.Size]byte]*verification
}

type verification struct {
	once   sync.Once
	report *plan.Report
	err    error

	merge  sync.Once
	merges bool // the host may run merged blocks: see coalesce.go
}

// maxVerified bounds the memory; a plan that falls out is checked again.
const maxVerified = 1024

// Check is plan.Check with the process's memory of earlier outcomes.
func Check(p *plan.Plan) (*plan.Report, error) { return check(p, sha256.Sum256(p.Encode())) }

func check(p *plan.Plan, hash [sha256.Size]byte) (*plan.Report, error) {
	v := verificationOf(hash)
	v.once.Do(func() { v.report, v.err = plan.Check(p, plan.VerifyOptions{}) })
	return v.report, v.err
}

func verificationOf(hash [sha256.Size]byte) *verification {
	verified.Lock()
	defer verified.Unlock()
	v := verified.by[hash]
	if v == nil {
		if len(verified.by) >= maxVerified || verified.by == nil {
			verified.by = map[[sha256.Size]byte]*verification{}
		}
		v = &verification{}
		verified.by[hash] = v
	}
	return v
}

// LoadJSON is Load for a plan file.
func (e *Executor) LoadJSON(ctx context.Context, file []byte, opts ...Option) (*ExecutionPlan, error) {
	p, err := plan.Decode(file)
	if err != nil {
		return nil, err
	}
	return e.Load(ctx, p, opts...)
}

// Load makes p ready to run. It is collective: all ranks load the same plans in the same order. p must not be changed afterwards. The error is
// that of the verifier, with its counterexample, or an *algorithm.Error.
func (e *Executor) Load(ctx context.Context, p *plan.Plan, opts ...Option) (*ExecutionPlan, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	x := &ExecutionPlan{e: e, plan: p, registered: o.registered, layouts: map[uint64]*layout{}}
	// Whatever is wrong here is told to the peers, so that nobody waits for a rank that has given up.
	err := x.prepare(&o)
	if agreed := x.agree(ctx, err); agreed != nil {
		return nil, agreed
	}
	switch e.dev.ID().Kind {
	case device.Host:
		x.engine, err = newHostEngine(ctx, x)
	case device.CUDA:
		x.engine, err = newCUDAEngine(ctx, x)
	default:
		err = fmt.Errorf("%w: device %v", algorithm.ErrUnsupported, e.dev.ID())
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

// prepare does what needs no peer.
func (x *ExecutionPlan) prepare(o *options) error {
	p := x.plan
	if len(p.GPUs) != x.e.size {
		return x.fail(0, -1, invalid("the plan is for %d ranks, the communicator has %d", len(p.GPUs), x.e.size))
	}
	if o.trusted {
		if err := p.Validate(&plan.Capacity); err != nil {
			return err
		}
	}
	x.hash = sha256.Sum256(p.Encode())
	x.evenOnly = p.MovesChunks()
	if !o.trusted {
		report, err := check(p, x.hash)
		if err != nil {
			return err
		}
		x.evenOnly = report.EvenOnly
	}
	x.reduction = reductionOf(p)
	var err error
	x.program, err = compile(p, x.e.rank)
	if err != nil {
		return err
	}
	if x.e.dev.ID().Kind == device.Host {
		return coalesced(p, x.hash, x.program)
	}
	x.encoded, err = encode(x.program, p.Period())
	return err
}

// agree compares the plan with everybody's and tells them when this rank cannot go on.
func (x *ExecutionPlan) agree(ctx context.Context, mine error) error {
	word := append([]byte{1}, x.hash[:]...)
	if mine != nil {
		word = append([]byte{0}, mine.Error()[:min(len(mine.Error()), 1000)]...)
	}
	all, err := x.e.boot.AllGather(ctx, word)
	if mine != nil {
		return mine
	}
	if err != nil {
		return x.fail(0, -1, err)
	}
	for r, w := range all {
		switch {
		case len(w) > 0 && w[0] == 0:
			return x.fail(0, r, fmt.Errorf("rank %d cannot load it: %s", r, w[1:]))
		case !bytes.Equal(w, word):
			return x.fail(0, r, mismatch("rank %d loads another plan", r))
		}
	}
	return nil
}

// defaultReserve is the message that scratch has room for from the start, within what the plan takes.
const defaultReserve = 1 << 20

// firstSize is a message size to make room for when loading.
func (x *ExecutionPlan) firstSize(want uint64) (uint64, bool) {
	p := x.plan
	if want == 0 {
		want = min(p.MaxSize, defaultReserve)
	}
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

// Plan is the plan; it must not be changed.
func (x *ExecutionPlan) Plan() *plan.Plan { return x.plan }

// Reserve makes room for messages of size bytes (see Reserve). It is collective.
func (x *ExecutionPlan) Reserve(ctx context.Context, size uint64) error {
	l, err := x.layout(size)
	if err != nil {
		return x.fail(0, -1, err)
	}
	return x.grow(ctx, l.Chunk)
}

// Poison fills scratch with a byte, for tests: a plan that reads there what it has not written yet then computes something wrong, whatever earlier
// launches have left. It makes room for messages of that size, is collective, and no launch may be on its way.
func (x *ExecutionPlan) Poison(ctx context.Context, message uint64, with byte) error {
	if err := x.Reserve(ctx, message); err != nil {
		return err
	}
	if err := x.e.boot.Barrier(ctx); err != nil { // the peers' launches are over, too
		return err
	}
	if at, n := x.engine.ownScratch(); n > 0 {
		if err := x.e.dev.CopyIn(at, bytes.Repeat([]byte{with}, int(n))); err != nil {
			return err
		}
	}
	return x.e.boot.Barrier(ctx)
}

// grow makes scratch fit chunk; all ranks come here with the same chunk.
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

// layout is a plan's layout for a message, and what launches want to know of it.
type layout struct {
	*plan.Layout
	blocks  bool     // input and output are blocks of Period chunks: not so with some user-defined collectives
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

// layout is the plan's layout for a message, or why it does not take it.
func (x *ExecutionPlan) layout(size uint64) (*layout, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if l := x.layouts[size]; l != nil {
		return l, nil
	}
	pl, err := x.plan.NewLayout(size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", algorithm.ErrInvalidArgument, err)
	}
	if x.evenOnly && !pl.Even() {
		return nil, invalid("the plan takes only messages that divide into equal chunks of whole units of %d bytes; %d bytes do not", x.plan.Alignment, size)
	}
	if len(x.layouts) >= maxLayouts {
		clear(x.layouts)
	}
	l := x.newLayout(pl)
	x.layouts[size] = l
	return l, nil
}

// Takes reports whether a message of that many bytes, in the plan's sense, type and operator can be executed; nil means yes.
func (x *ExecutionPlan) Takes(message uint64, t datatype.Type, op datatype.Op) error {
	if !t.Valid() || !op.Valid() {
		return invalid("type %v, operator %v", t, op)
	}
	if x.plan.Alignment%t.Size() != 0 {
		return invalid("the plan divides into units of %d bytes, which do not hold whole elements of %v", x.plan.Alignment, t)
	}
	if err := x.reduction.takes(op); err != nil {
		return err
	}
	l, err := x.layout(message)
	if err == nil && l.Block%t.Size() != 0 {
		return invalid("a message of %d bytes has blocks of %d bytes, which do not hold whole elements of %v", message, l.Block, t)
	}
	return err
}

func (x *ExecutionPlan) close() error { return x.engine.close() }
