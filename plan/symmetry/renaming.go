package symmetry

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// Renaming renames the ranks of a plan, and the chunks of its buffers in the same way on every rank: rank r becomes
// Ranks[r], chunk k of input, output or scratch becomes Chunks[plane][k].
type Renaming struct {
	Ranks  []int32
	Chunks [3][]int32
}

// after returns the renaming that first does h and then g.
func (g *Renaming) after(h *Renaming) *Renaming {
	out := &Renaming{Ranks: compose(g.Ranks, h.Ranks)}
	for pl := range out.Chunks {
		if out.Chunks[pl] = compose(g.Chunks[pl], h.Chunks[pl]); pl == int(plan.OutputPlane) && g.oneMap() && h.oneMap() {
			out.Chunks[plan.OutputPlane] = out.Chunks[plan.InputPlane]
		}
	}
	return out
}

// oneMap reports whether input and output share one table, as they do where they hold the same chunks.
func (g *Renaming) oneMap() bool {
	in, out := g.Chunks[plan.InputPlane], g.Chunks[plan.OutputPlane]
	return len(in) == len(out) && (len(in) == 0 || &in[0] == &out[0])
}

func (g *Renaming) equal(h *Renaming) bool {
	return slices.EqualFunc(g.Chunks[:], h.Chunks[:], slices.Equal) && slices.Equal(g.Ranks, h.Ranks)
}

// Chunk returns the new number of a chunk of a plane.
func (g *Renaming) Chunk(pl plan.Plane, k int) int {
	return int(g.Chunks[min(pl, plan.ScratchPlane)][k])
}

// span returns the image of a range of chunks that the renaming takes to a range, in whatever order.
func (g *Renaming) span(pl plan.Plane, from, to int) (first, size int) {
	first = g.Chunk(pl, from)
	for k := from + 1; k < to; k++ {
		first = min(first, g.Chunk(pl, k))
	}
	return first, to - from
}

func compose(g, h []int32) []int32 {
	out := make([]int32, len(h))
	for i, x := range h {
		out[i] = g[x]
	}
	return out
}

func identityMap(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

// Group is a group of rank permutations under which a plan is invariant. It acts freely: only the identity fixes a
// rank. So each rank is exactly one image of its orbit's representative. Elements are numbered; 0 is the identity.
type Group struct {
	elements []*Renaming
	inverse  []int32
	at       []int32 // by rank in the orbit of rank 0: the element that takes rank 0 there
	rep      []int32 // by rank: its representative, the smallest rank of the orbit
	frame    []int32 // by rank: the element that takes the representative there
}

// maxSymmetry bounds the memory of a group: entries in the tables of all elements.
const maxSymmetry = 1 << 25

// Order returns the number of renamings.
func (s *Group) Order() int { return len(s.elements) }

// Representatives returns the smallest rank of every orbit.
func (s *Group) Representatives() (out []int) {
	for r, q := range s.rep {
		if int(q) == r {
			out = append(out, r)
		}
	}
	return out
}

// Frame returns the element that takes the representative of a rank there.
func (s *Group) Frame(rank int) int32 { return s.frame[rank] }

// Element returns a renaming by its number.
func (s *Group) Element(g int32) *Renaming { return s.elements[g] }

// Inverse returns the element that takes back what g does.
func (s *Group) Inverse(g int32) int32 { return s.inverse[g] }

// Mul returns the element that first does h, then g.
func (s *Group) Mul(g, h int32) int32 {
	if g == 0 {
		return h
	}
	return s.at[s.elements[g].Ranks[s.elements[h].Ranks[0]]]
}

// Generate returns the group that the renamings generate, or nil when it is too large, or when an element other than
// the identity keeps a rank.
func Generate(gens []*Renaming) *Group {
	n := len(gens[0].Ranks)
	each := n
	for pl, m := range gens[0].Chunks {
		if pl != int(plan.OutputPlane) || !gens[0].oneMap() {
			each += len(m)
		}
	}
	id := &Renaming{Ranks: identityMap(n)}
	for pl := range id.Chunks {
		id.Chunks[pl] = identityMap(len(gens[0].Chunks[pl]))
	}
	s := &Group{elements: []*Renaming{id}, at: unknown(n)}
	s.at[0] = 0
	for i := 0; i < len(s.elements); i++ {
		for _, g := range gens {
			e := g.after(s.elements[i])
			to := e.Ranks[0]
			if k := s.at[to]; k >= 0 {
				if !e.equal(s.elements[k]) {
					return nil // e and element k differ by a renaming that keeps rank 0
				}
				continue
			}
			if len(s.elements)*each > maxSymmetry {
				return nil
			}
			s.at[to] = int32(len(s.elements))
			s.elements = append(s.elements, e)
		}
	}
	return s.divide(n)
}

// divide fills in orbits and inverses.
func (s *Group) divide(n int) *Group {
	s.rep, s.frame, s.inverse = unknown(n), make([]int32, n), make([]int32, len(s.elements))
	for r := range n {
		if s.rep[r] >= 0 {
			continue
		}
		for k, e := range s.elements {
			to := e.Ranks[r]
			if s.rep[to] >= 0 {
				return nil // two elements take r to one rank
			}
			s.rep[to], s.frame[to] = int32(r), int32(k)
		}
	}
	for k, e := range s.elements {
		for r, to := range e.Ranks {
			if to == 0 {
				s.inverse[k] = s.at[r]
			}
		}
	}
	return s
}

// Representative returns the rank that stands for a rank.
func (s *Group) Representative(rank int) int { return int(s.rep[rank]) }

// Home returns the number that chunk k of a plane of a rank has on the rank's representative.
func (s *Group) Home(rank int, pl plan.Plane, k int) int {
	return s.elements[s.inverse[s.frame[rank]]].Chunk(pl, k)
}

// subgroup returns the renamings of ranks that keep approves of. They must form a group.
func (s *Group) subgroup(keep func(ranks []int32) bool) *Group {
	n := len(s.rep)
	out := &Group{at: unknown(n)}
	for _, e := range s.elements {
		if keep(e.Ranks) {
			out.at[e.Ranks[0]] = int32(len(out.elements))
			out.elements = append(out.elements, e)
		}
	}
	return out.divide(n)
}

// Images visits what the renamings make of a rank.
func (s *Group) Images(rank int, visit func(to int)) {
	for _, e := range s.elements {
		visit(int(e.Ranks[rank]))
	}
}
