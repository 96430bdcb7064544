package verify

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/internal/sets"
	"github.com/goccl/goccl/plan/symmetry"
)

// loops describes the pipelines of a plan, for all sizes of messages at once.
//
// A pipeline over n chunks by units of u bytes runs ⌈n·C/u⌉ times when a chunk has C bytes. Pipelines with the same n/u
// run equally often for every C: they are one class. In iteration i an op works on window i of its operands. A chunk
// that a pipeline touches is windowed: each of its bytes lies in one window. All pipelines that touch it, or a chunk
// that data of the same offset moves to, must divide it in one way (walk), so that the window of a byte depends only on
// its offset in the chunk.
type loops struct {
	classes []loopClass
	class   map[*plan.Op]int // of a pipeline
	sets    sets.Sets        // of chunks in memory, by number: chunks between which data moves
	walks   []walk           // by chunkID of a representative
	start   [][plan.NumPlanes]int32
	used    bool
}

// loopClass is a set of pipelines that run equally often.
type loopClass struct {
	op     *plan.Op // the first of them
	lo, hi int64    // iterations for the smallest and the largest message
}

// walk is how pipelines divide a chunk: its windows are of unit bytes, from the start of slice Index of count of size
// chunks of which it is the at-th.
type walk struct {
	unit     int64
	size, at int
	count    int
	class    int
	by       plan.Pos // first op, for messages
}

func (w *walk) same(o *walk) bool {
	return w.unit == o.unit && w.size == o.size && w.at == o.at && w.count == o.count && w.class == o.class
}

// together reports whether two pipelines have the same number of iterations for every message: their units are the same
// fraction of their operands.
func together(a, b *plan.Op) bool {
	ah, al := bits.Mul64(uint64(a.NumChunks), uint64(b.UnitSize))
	bh, bl := bits.Mul64(uint64(b.NumChunks), uint64(a.UnitSize))
	return ah == bh && al == bl
}

// findLoops classifies the pipelines, for chunks of lo to hi units.
func findLoops(p *plan.Plan, r *resolved, lo, hi int64) (*loops, error) {
	l := &loops{class: map[*plan.Op]int{}}
	for _, prog := range r.programs {
		for i := range prog {
			s := &prog[i]
			if !s.Does.Has(plan.Loops) {
				continue
			}
			c := slices.IndexFunc(l.classes, func(k loopClass) bool { return together(k.op, s.Op) })
			if c < 0 {
				c = len(l.classes)
				l.classes = append(l.classes, loopClass{op: s.Op, lo: iterations(p, s.Op, lo), hi: iterations(p, s.Op, hi)})
			}
			l.class[s.Op] = c
		}
	}
	if l.used = len(l.classes) > 0; !l.used {
		return l, nil
	}
	l.number(p, r.symmetry)
	for _, prog := range r.programs {
		l.connect(p, r, prog)
	}
	for _, prog := range r.programs {
		for i := range prog {
			if s := &prog[i]; s.Does.Has(plan.Loops) {
				if err := l.divide(p, r, s); err != nil {
					return nil, err
				}
			}
		}
	}
	return l, nil
}

// number gives every chunk in memory an index; with a symmetry, every chunk of a representative.
func (l *loops) number(p *plan.Plan, s *symmetry.Group) {
	n := int32(0)
	for r := range p.GPUs {
		if s != nil && s.Representative(r) != r {
			l.start = append(l.start, [plan.NumPlanes]int32{})
			continue
		}
		in, out, s := p.ChunkCount(r, plan.Input), p.ChunkCount(r, plan.Output), p.GPUs[r].ScratchChunks
		var start [plan.NumPlanes]int32
		for pl, c := range [plan.NumPlanes]int{max(in, out), out, s, s} {
			start[pl] = n
			n += int32(c)
		}
		l.start = append(l.start, start)
	}
	l.sets = sets.New(int(n))
	l.walks = make([]walk, n)
}

// chunk returns the representative of chunk j of a place. With a symmetry, this is a chunk of the rank that
// stands for the place's rank: pipelines divide it in the same way there.
func (l *loops) chunk(p *plan.Plan, r *resolved, pl *plan.Place, j int) int {
	rank, k := pl.Rank, pl.Index+j
	if s := r.symmetry; s != nil {
		rank, k = s.Representative(rank), s.Home(rank, pl.Plane, k)
	}
	plane, k := p.MemoryAt(rank, pl.Plane, k, r.period)
	return l.sets.Of(int(l.start[rank][plane]) + k)
}

// connect unites the chunks between which data moves.
func (l *loops) connect(p *plan.Plan, r *resolved, steps []plan.Step) {
	for _, m := range plan.EachMove(steps) {
		for j := range m.Src[0].Size {
			to := l.chunk(p, r, &m.Src[0], j)
			for _, list := range [2][]plan.Place{m.Src, m.Dst} {
				for k := range list {
					l.sets.Join(to, l.chunk(p, r, &list[k], j))
				}
			}
		}
	}
}

// divide notes how a pipeline divides the chunks that it touches.
func (l *loops) divide(p *plan.Plan, r *resolved, loop *plan.Step) error {
	for i := range loop.Body {
		s := &loop.Body[i]
		for m := range s.Moves {
			move := &s.Moves[m]
			size := move.Src[0].Size
			if size != loop.Op.NumChunks {
				return notExamined(p, "%v (%s) works on %d chunks in a pipeline over %d; make the two equal", s.Pos, s.Op.Name,
					size, loop.Op.NumChunks)
			}
			if usesPackets(move) {
				return notExamined(p, "%v (%s) moves packets in a pipeline, and the repetition of packets is not proven; move the "+
					"data with put and signal, or the packets outside of the pipeline", s.Pos, s.Op.Name)
			}
			for j := range size {
				w := walk{unit: loop.Op.UnitSize, size: size, at: j, count: max(1, s.Op.Slice.Count), class: l.class[loop.Op],
					by: s.Pos}
				at := &l.walks[l.chunk(p, r, &move.Src[0], j)]
				if at.unit == 0 {
					*at = w
				} else if !at.same(&w) {
					return notExamined(p, "pipelines divide the same data in two ways: %s, and %s; let all pipelines that work on "+
						"it have the same unit_size, num_chunks and group", at, &w)
				}
			}
		}
	}
	return nil
}

func (w *walk) String() string {
	s := fmt.Sprintf("%v by %d bytes of %d chunks", w.by, w.unit, w.size)
	if w.count > 1 {
		s += fmt.Sprintf(", in %d parts", w.count)
	}
	if w.size > 1 {
		s += fmt.Sprintf(" (chunk %d of them)", w.at)
	}
	return s
}

func usesPackets(m *plan.Move) bool {
	packets := func(pl plan.Place) bool { return pl.Plane == plan.PacketPlane }
	return slices.ContainsFunc(m.Src, packets) || slices.ContainsFunc(m.Dst, packets)
}

// of returns the class whose windows divide chunk j of a place, or -1.
func (l *loops) of(p *plan.Plan, r *resolved, pl *plan.Place, j int) int {
	if !l.used {
		return -1
	}
	if w := &l.walks[l.chunk(p, r, pl, j)]; w.unit > 0 {
		return w.class
	}
	return -1
}
