package interp_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
)

// units lists the units that a step works on in each operand, as chunk and unit in it.
func (m *plain) units(s plainStep, move *plan.Move, l *plan.Layout) (out [][2]int) {
	lo, hi := l.Range(move.Src[0].Size, s.Op.Slice, s.unit, s.iter)
	for at := lo; at < hi; at += l.Alignment {
		out = append(out, [2]int{int(at / l.Chunk), int(at % l.Chunk / l.Alignment)})
	}
	return out
}

func (m *plain) at(pl *plan.Place, u [2]int, launch int) (where, [3]int) {
	l := m.sizes[launch]
	unit := (pl.Index+u[0])*int(l.Chunk/l.Alignment) + u[1]
	if pl.Plane <= plan.OutputPlane {
		return m.user(l, pl.Rank, int(pl.Plane), unit), [3]int{}
	}
	half := 0
	if m.p.DoubleScratch {
		half = launch & 1
	}
	return where{pl.Rank, int(pl.Plane) + 10*half, unit}, [3]int{pl.Rank, int(pl.Plane), half}
}

// move runs a step that moves data, when its packets are there.
func (m *plain) move(b *plainBlock, s plainStep) (bool, error) {
	launch := m.launch[b.rank]
	l := m.sizes[launch]
	for i := range s.Moves {
		for _, u := range m.units(s, &s.Moves[i], l) {
			for k := range s.Moves[i].Src {
				if at, _ := m.at(&s.Moves[i].Src[k], u, launch); s.Moves[i].Src[k].Plane == plan.PacketPlane &&
					m.cell(at).flag < launch+1 {
					return false, nil
				}
			}
		}
	}
	for i := range s.Moves {
		for _, u := range m.units(s, &s.Moves[i], l) {
			if err := m.one(b, s, &s.Moves[i], u, launch); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// one moves one unit: a single thread does. It starts when it has its packets, and has read its sources when done.
func (m *plain) one(b *plainBlock, s plainStep, move *plan.Move, u [2]int, launch int) error {
	m.insts++
	start := m.moment(b.begin)
	done := m.moment(start)
	m.edges[b.end] = append(m.edges[b.end], edge{done, false})
	deedOf := func(write bool, pl *plan.Place) *deed {
		d := &deed{from: start, over: done, inst: m.insts, write: write, packet: pl.Plane == plan.PacketPlane,
			launch: launch, at: fmt.Sprintf("launch %d, %v (%s)", launch+1, s.Pos, s.Op.Name)}
		if write {
			d.over = b.end
		}
		return d
	}
	var values []string
	for k := range move.Src {
		src := &move.Src[k]
		at, half := m.at(src, u, launch)
		c, d := m.cell(at), deedOf(false, src)
		if src.Plane == plan.PacketPlane {
			if c.flag != launch+1 {
				return fmt.Errorf("a packet of another launch")
			}
			c.writer.read = true
			m.edges[start] = append(m.edges[start], edge{c.packet, true})
			c.deeds = append(c.deeds, d)
		} else if err := m.access(c, d); err != nil {
			return err
		}
		if err := m.reuse(half, src, d); err != nil {
			return err
		}
		values = append(values, c.value)
	}
	value := values[0]
	if len(values) > 1 {
		value = combined(values, s.Op.ReduceOp)
	}
	for k := range move.Dst {
		dst := &move.Dst[k]
		if dst.Plane == plan.InputPlane && !m.p.InPlace {
			return fmt.Errorf("%v writes input", s.Pos)
		}
		at, half := m.at(dst, u, launch)
		c, d := m.cell(at), deedOf(true, dst)
		if dst.Plane == plan.PacketPlane {
			if c.flag >= launch+1 {
				return errNotPlain // two packets in a launch
			}
			for _, o := range c.deeds {
				if !o.write && !m.reaches(o.over, d.from, true) {
					return fmt.Errorf("data race: %s, and %s", o.at, d.at)
				}
			}
			c.flag, c.packet, c.writer, c.deeds = launch+1, done, d, nil
		} else if err := m.access(c, d); err != nil {
			return err
		}
		if err := m.reuse(half, dst, d); err != nil {
			return err
		}
		c.value = value
	}
	return nil
}

// reuse checks a deed in scratch against all deeds of earlier launches: they may have divided it differently.
func (m *plain) reuse(half [3]int, pl *plan.Place, d *deed) error {
	if pl.Plane <= plan.OutputPlane {
		return nil
	}
	for _, o := range m.old[half] {
		switch {
		case o.launch > d.launch:
			return fmt.Errorf("data race: %s, and then %s", o.at, d.at)
		case o.launch == d.launch || !o.write && !d.write || d.packet && !d.write || o.packet && o.write && o.read:
		case o.write && !o.packet && !m.reaches(o.over, d.from, false), !m.reaches(o.over, d.from, true):
			return fmt.Errorf("data race: scratch of %s, and %s", o.at, d.at)
		}
	}
	m.old[half] = append(m.old[half], d)
	return nil
}

// combined is the sum of values: their terms in order, and the operator.
func combined(values []string, op plan.ReduceOp) string {
	var terms []string
	for _, v := range values {
		if v == "" {
			return ""
		}
		list, was, sum := strings.Cut(v, " by ")
		if sum && was != "op "+string(op) {
			return "mixed operators"
		}
		terms = append(terms, strings.Split(list, "+")...)
	}
	slices.Sort(terms)
	return strings.Join(terms, "+") + " by op " + string(op)
}

// result compares the output of a rank with what its collective must compute.
func (m *plain) result(r int) error {
	launch := m.launch[r]
	l, p, n := m.sizes[launch], m.p, len(m.p.GPUs)
	per, period := int(l.Chunk/l.Alignment), l.Period
	for k := range int(l.Size(r, plan.Output) / l.Chunk) {
		var of []plan.Contribution
		switch p.Collective {
		case plan.AllReduce:
			for q := range n {
				of = append(of, plan.Contribution{Rank: q, Index: k})
			}
		case plan.ReduceScatter:
			for q := range n {
				of = append(of, plan.Contribution{Rank: q, Index: r*period + k})
			}
		case plan.AllGather:
			of = []plan.Contribution{{Rank: k / period, Index: k % period}}
		case plan.AllToAll:
			of = []plan.Contribution{{Rank: k / period, Index: r*period + k%period}}
		case plan.Broadcast:
			of = []plan.Contribution{{Rank: p.Root, Index: k}}
		case plan.Reduce:
			return errNotPlain
		case plan.SendRecv:
			of = []plan.Contribution{{Rank: (r + n - 1) % n, Index: k}}
		}
		wanted := ""
		for i := range p.Postcondition {
			if c := &p.Postcondition[i]; c.Rank == r && c.Index <= k && k < c.Index+c.Size {
				of, wanted = nil, "op "+string(c.Op)
				for _, t := range c.Of {
					of = append(of, plan.Contribution{Rank: t.Rank, Index: t.Index + k - c.Index})
				}
			}
		}
		if of == nil {
			continue // not constrained
		}
		for x := range per {
			var terms []string
			for _, c := range of {
				terms = append(terms, fmt.Sprintf("%d.%d.%d", launch, c.Rank, c.Index*per+x))
			}
			slices.Sort(terms)
			have, op, sum := strings.Cut(m.cell(m.user(l, r, 1, k*per+x)).value, " by ")
			if sum && wanted != "" && op != wanted {
				return fmt.Errorf("rank %d, chunk %d is combined by %q, not by %q", r, k, op, wanted)
			}
			if sum && wanted == "" && m.op != "" && m.op != op {
				return fmt.Errorf("rank %d, chunk %d is combined by %q and others by %q", r, k, op, m.op)
			}
			if sum && wanted == "" {
				m.op = op
			}
			if want := strings.Join(terms, "+"); have != want {
				return fmt.Errorf("rank %d, chunk %d holds %q, not %q", r, k, have, want)
			}
		}
	}
	return nil
}
