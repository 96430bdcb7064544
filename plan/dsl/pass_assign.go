package dsl

import (
	"slices"

	"github.com/goccl/goccl/plan/internal/sets"
)

// assignBlocks chooses thread blocks for operations without one.
//
// Operations of a rank that must keep their order share a block; the others are distributed over blocks. These must
// keep their order:
//  1. two operations that use the same channel, or overlapping local chunks of which one is written;
//  2. a signal to a peer and every earlier operation on memory that this rank and the peer share;
//  3. a wait for a peer and every later operation on memory that this rank and the peer share; if the rank has not
//     waited for that peer yet, any wait counts, because the order may come through a third rank.
//
// A block named by the author also gets the operations that depend on it. If there are more groups than
// MaxThreadBlocks, several groups share a block. This adds order and never removes it, so a program that is correct on
// one block stays correct.
func (p *CollectiveProgram) assignBlocks() {
	var shared map[int][]reach
	for id, r := range p.ranks {
		if !slices.ContainsFunc(r.ops, func(o *operation) bool { return o.tb == Auto }) {
			continue
		}
		if shared == nil {
			shared = p.sharedMemory()
		}
		p.assignRank(id, r, shared)
	}
}

// reach is a chunk of a rank that a peer's operations access.
type reach struct {
	peer  int
	chunk Chunk
}

// sharedMemory returns, for each rank, which of its chunks its peers access.
func (p *CollectiveProgram) sharedMemory() map[int][]reach {
	shared := map[int][]reach{}
	for _, r := range p.ranks {
		for _, o := range r.ops {
			for x := range o.operands() {
				if x.channel == nil && x.sw == nil {
					continue
				}
				for _, c := range x.places() {
					if c.Rank != o.rank {
						shared[c.Rank] = append(shared[c.Rank], reach{o.rank, c})
					}
				}
			}
		}
	}
	return shared
}

// peers returns the ranks with which the operation accesses common memory.
func (o *operation) peers(shared map[int][]reach, ranks int) []int {
	set := make([]bool, ranks)
	for x := range o.operands() {
		switch {
		case x.channel != nil:
			set[x.channel.dst] = true
		case x.sw != nil:
			for _, m := range x.sw.ranks {
				set[m] = true
			}
		default:
			for _, s := range shared[o.rank] {
				set[s.peer] = set[s.peer] || s.chunk.Overlaps(x.chunk)
			}
		}
	}
	var out []int
	for q, ok := range set {
		if ok && q != o.rank {
			out = append(out, q)
		}
	}
	return out
}

func (p *CollectiveProgram) assignRank(id int, r *rankState, shared map[int][]reach) {
	g := &groups{r.ops, sets.New(len(r.ops))}
	byChannel := map[*channel]int{}
	touched := map[int][]int{} // peer → operations on common memory so far
	waits := map[int][]int{}   // peer → waits so far
	var allWaits []int
	for i, o := range r.ops {
		if o.meets() {
			continue
		}
		for _, c := range o.channels {
			if j, ok := byChannel[c]; ok {
				g.join(i, j)
			}
			byChannel[c] = i
		}
		for j := range i {
			if conflict(r.ops[j], o, overlapHere) {
				g.join(i, j)
			}
		}
		if o.movesData() {
			for _, q := range o.peers(shared, len(p.ranks)) {
				guards := waits[q]
				if len(guards) == 0 {
					guards = allWaits
				}
				for _, j := range guards {
					g.join(i, j)
				}
				touched[q] = append(touched[q], i)
			}
		}
		for _, c := range o.channels {
			if o.publishes() {
				for _, j := range touched[c.dst] {
					g.join(i, j)
				}
			}
			if o.admits() {
				waits[c.dst] = append(waits[c.dst], i)
				allWaits = append(allWaits, i)
			}
		}
	}
	p.number(id, r, g)
}

// number maps groups to blocks: a group with a named block gets that block, the others get the lowest free numbers in
// program order.
func (p *CollectiveProgram) number(id int, r *rankState, g *groups) {
	next := 0
	named := map[int]*operation{}
	for i, o := range r.ops {
		if o.tb == Auto {
			continue
		}
		next = max(next, o.tb+1)
		root := g.Of(i)
		if first, ok := named[root]; ok && first.tb != o.tb {
			p.fail(o.pos, ErrAssignment, "name the block of the operations between them with TB",
				"rank %d: an operation without a block depends on block %d (%v) and on block %d", id, first.tb, first.pos, o.tb)
			continue
		}
		named[root] = o
	}
	base, blocks := next, map[int]int{}
	for i, o := range r.ops {
		if o.tb != Auto {
			continue
		}
		root := g.Of(i)
		if first, ok := named[root]; ok {
			o.tb = first.tb
			continue
		}
		b, ok := blocks[root]
		if !ok {
			b = base + len(blocks)%p.spec.MaxThreadBlocks
			blocks[root] = b
		}
		o.tb = b
	}
}

// conflict reports whether an operand of a and one of b, of which one is written, meet.
func conflict(a, b *operation, meets func(x, y operand) bool) bool {
	return meeting(a.dst, b.dst, meets) || meeting(a.dst, b.src, meets) || meeting(a.src, b.dst, meets)
}

// overlapHere reports whether two operands share a chunk of the rank whose operations have them.
func overlapHere(a, b operand) bool {
	return a.channel == nil && b.channel == nil && a.chunk.Overlaps(b.chunk)
}

// meeting reports whether some element of x meets one of y.
func meeting[T any](x, y []T, meets func(a, b T) bool) bool {
	return slices.ContainsFunc(x, func(a T) bool {
		return slices.ContainsFunc(y, func(b T) bool { return meets(a, b) })
	})
}

// groups are sets of the operations of a rank. Two operations with named blocks are not joined: the author
// determines their order.
type groups struct {
	ops []*operation
	sets.Sets
}

func (g *groups) join(i, j int) {
	if g.ops[i].tb == Auto || g.ops[j].tb == Auto {
		g.Join(i, j)
	}
}
