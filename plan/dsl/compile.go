package dsl

import (
	"maps"
	"slices"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/symmetry"
)

// Compile turns the program into a plan. It does not change the program, so a second call returns an equal plan. Errors
// are *Error values, joined, with positions in the author's source.
//
//  1. pairing: every signal has its wait
//  2. assignment: a thread block for each operation that has none
//  3. refinement, with several instances: operations on a common chunk access the same range of chunks
//  4. fusion of adjacent operations
//  5. data sync: the synchronization that the author requested
//  6. auto-sync: the synchronization that is missing
//  7. replication into instances, and translation to the plan's tables
func (p *CollectiveProgram) Compile() (*plan.Plan, error) {
	if p.loop != nil {
		p.fail(p.loop.pos, ErrUsage, "call EndLoop", "a pipeline is not closed")
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	w := p.copyOps()
	if !w.spec.AllowUnpaired && w.spec.Only == nil {
		w.checkPairing()
	}
	w.assignBlocks()
	if w.spec.Instances > 1 && w.Err() == nil {
		w.refine()
	}
	if err := w.Err(); err != nil {
		return nil, err
	}
	out := w.lower()
	if err := w.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// copyOps returns the program with a copy of its operations, which passes may change.
func (p *CollectiveProgram) copyOps() *CollectiveProgram {
	w := *p
	w.errs = nil
	w.ranks = make([]*rankState, len(p.ranks))
	for i, r := range p.ranks {
		c := *r
		c.ops = make([]*operation, len(r.ops))
		for j, o := range r.ops {
			c.ops[j] = o.clone()
		}
		w.ranks[i] = &c
	}
	return &w
}

// blocks returns the operations of a rank by thread block. Blocks are numbered densely, in the order of the author's
// numbers.
func (r *rankState) blocks() [][]*operation {
	byID := map[int][]*operation{}
	for _, o := range r.ops {
		byID[o.tb] = append(byID[o.tb], o)
	}
	var out [][]*operation
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		out = append(out, byID[id])
	}
	return out
}

// schedule runs the passes that work on one thread block.
func (p *CollectiveProgram) schedule(ops []*operation) []*operation {
	if !p.spec.NoFusion {
		ops = p.fuse(ops)
	}
	ops = p.placeSyncs(ops)
	if !p.spec.NoAutoSync {
		ops = p.autoSync(ops)
	}
	return ops
}

// Fold compiles a program with symmetric ranks without the operations of all of them: write writes the program that
// AlgoSpec.Only selects, and is called a few times. The result is nil when the ranks that were written show no
// symmetry. The author vouches for the ranks that were not written: the symmetry derives their operations from the
// ranks that were.
func Fold(write func(only func(rank int) bool) (*CollectiveProgram, error)) (*symmetry.Folded, error) {
	compile := func(only func(rank int) bool) (*plan.Plan, error) {
		p, err := write(only)
		if err != nil {
			return nil, err
		}
		return p.Compile()
	}
	tables, err := compile(func(int) bool { return false })
	if err != nil {
		return nil, err
	}
	return symmetry.FoldRanks(tables, func(has func(rank int) bool) (*plan.Plan, error) { return compile(has) })
}

// checkPairing compares every channel's signals with its peer's waits. A wait on the k-th channel from b to a consumes
// a signal on the k-th channel of the same type from a to b, so the counts of each such pair must agree, inside every
// pipeline and outside. The verifier checks the order.
func (p *CollectiveProgram) checkPairing() {
	type end struct {
		kind     ChannelType
		from, to int
		nth      int
		unit     uint64 // of the pipeline; 0 outside
		chunks   int
	}
	type tally struct {
		signals, waits int
		pos            Position
	}
	tallies := map[end]*tally{}
	var order []end // by first use, so that errors come in program order
	at := func(e end, pos Position) *tally {
		t := tallies[e]
		if t == nil {
			t = &tally{pos: pos}
			tallies[e] = t
			order = append(order, e)
		}
		return t
	}
	for _, r := range p.ranks {
		for _, o := range r.ops {
			for _, c := range o.channels {
				if c.kind == plan.HookChannel {
					continue // its other end is the caller's
				}
				e := end{kind: c.kind, from: c.src, to: c.dst, nth: c.nth}
				if o.loop != nil {
					e.unit, e.chunks = o.loop.unit, o.loop.numChunks
				}
				if o.kind.Does.Has(plan.Adds) {
					at(e, o.pos).signals++
				}
				if o.kind.Does.Has(plan.Takes) {
					e.from, e.to = e.to, e.from
					at(e, o.pos).waits++
				}
			}
		}
	}
	for _, e := range order {
		if t := tallies[e]; t.signals != t.waits {
			where := ""
			if e.unit != 0 {
				where = " in pipelines"
			}
			p.fail(t.pos, ErrPairing, "give every signal one wait on the peer's channel of the same number",
				"%s channel %d: rank %d signals rank %d %d times%s, which waits %d times", e.kind, e.nth, e.from, e.to, t.signals,
				where, t.waits)
		}
	}
}
