package verify

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/symmetry"
)

// quotient lets the representatives of a symmetry stand for all ranks. docs/verifier.md, "Symmetry", states the
// argument. The verifier runs representatives only. Their actions on another rank are renamed, and applied to
// the representative of that rank: a signal arrives there with its clock, an access happens there with its stamp.
//
// The run is one interleaving of the whole plan: each step is made by all ranks of an orbit, one after another, before
// the next. The state of every rank is the renamed state of its representative throughout.
//
// A nil quotient is the group of one element: every rank stands for itself.
type quotient struct {
	*symmetry.Group
	v      *verifier
	clocks map[framedClock]*clock
}

type framedClock struct {
	k *clock
	g int32
}

// order returns the number of elements.
func (q *quotient) order() int {
	if q == nil {
		return 1
	}
	return q.Order()
}

// own reports whether the verifier runs a rank.
func (q *quotient) own(rank int) bool { return q == nil || q.Representative(rank) == rank }

// standIn returns the rank that stands for a rank.
func (q *quotient) standIn(rank int) int {
	if q == nil {
		return rank
	}
	return q.Representative(rank)
}

// block returns the image of a thread block.
func (q *quotient) block(g int32, id int) int {
	r := q.v.rankOf[id]
	return q.v.first[q.Element(g).Ranks[r]] + id - q.v.first[r]
}

// component returns the image of a component of clocks.
func (q *quotient) component(g, comp int32) int32 {
	v := q.v
	switch ports := int32(v.reader(0)); {
	case g == 0 || comp < 0:
		return comp
	case comp < int32(v.caller):
		return int32(q.block(g, int(comp)))
	case comp < ports:
		return int32(v.caller) + q.Element(g).Ranks[comp-int32(v.caller)]
	default:
		n, port := int32(q.Order()), (comp-ports)/2
		return ports + 2*(port-port%n+q.Mul(g, port%n)) + (comp-ports)%2
	}
}

// clock returns the image of a clock.
func (q *quotient) clock(g int32, k *clock) *clock {
	if g == 0 || k == nil {
		return k
	}
	key := framedClock{k, g}
	if out := q.clocks[key]; out != nil {
		return out
	}
	out := &clock{t: k.t, d: k.t.image(q.Group, g, k.d), one: k.one, owner: -1, phase: k.phase,
		over: q.movements(g, k.over)}
	if out.c = out.d; !k.one {
		out.c = k.t.image(q.Group, g, k.c)
	}
	if k.owner >= 0 {
		out.owner = int(q.component(g, int32(k.owner)))
	}
	if len(q.clocks) >= 256 { // images are used at once, if at all
		clear(q.clocks)
	}
	q.clocks[key] = out
	return out
}

// instance returns the image of an instance of a movement. The element is the last digit of its number.
func (q *quotient) instance(g int32, inst int64) int64 {
	n := int64(q.Order())
	return inst - inst%n + int64(q.Mul(g, int32(inst%n)))
}

// counter returns where a signal into the counter of a link is seen: the counter at the representative's end, and the
// element under which it is seen there.
func (q *quotient) counter(at int) (to int, g int32) {
	if q == nil || at >= len(q.v.links) {
		return at, 0
	}
	return q.v.home(at), q.Inverse(q.Frame(q.v.links[at].Rank))
}

// mirror returns the thread block that is the image of b, at the same op.
func (q *quotient) mirror(g int32, b *blockState) *blockState {
	if g == 0 {
		return b
	}
	m := q.v.blocks[q.block(g, b.id)]
	m.pc, m.launch = b.pc, b.launch
	return m
}

// visit returns the walker that makes the access of w to a chunk of another rank at that rank's representative, and the
// chunk there.
func (q *quotient) visit(w *walker, pl *plan.Place, part sub) (*walker, plan.Place, sub) {
	g := q.Inverse(q.Frame(pl.Rank))
	k := q.Element(g).Chunk(pl.Plane, pl.Index+int(part.chunk))
	x := *w
	x.frame = q.Mul(g, w.frame)
	x.self = q.component(g, w.self)
	x.reads.comp, x.writes.comp = q.component(g, w.reads.comp), q.component(g, w.writes.comp)
	x.at.block = int32(q.block(g, int(w.at.block)))
	x.inst = q.instance(g, w.inst)
	if pl.Plane == plan.PacketPlane {
		x.made = q.movements(g, w.proof())
	}
	return &x, plan.Place{Rank: q.Representative(pl.Rank), Plane: pl.Plane, Index: k, Size: 1}, sub{0, part.atom}
}

// place returns the image of a position in a block: element g takes all chunks at that position to the image.
func (q *quotient) place(g, at int32) int32 {
	return q.Element(g).Chunks[plan.InputPlane][at] % int32(q.v.period)
}
