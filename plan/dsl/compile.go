package dsl

import (
	"slices"

	"github.com/goccl/goccl/plan"
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
	var ids []int
	byID := map[int][]*operation{}
	for _, o := range r.ops {
		if _, ok := byID[o.tb]; !ok {
			ids = append(ids, o.tb)
		}
		byID[o.tb] = append(byID[o.tb], o)
	}
	slices.Sort(ids)
	out := make([][]*operation, len(ids))
	for i, id := range ids {
		out[i] = byID[id]
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
