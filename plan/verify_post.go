package plan

import (
	"fmt"
	"slices"
)

// demand is what an output chunk must contain when a launch has ended.
type demand struct {
	of        []Contribution // sorted by rank, then index
	all       bool           // of is one chunk of all ranks: the same chunk of each
	untouched bool           // the plan must not write it
	free      bool           // unconstrained
	op        ReduceOp       // of a user-defined reduction; anyOp for the named collectives
}

const anyOp ReduceOp = "any"

// demands returns what the output chunks of a rank must contain.
func (v *verifier) demands(rank int) []demand {
	p, n := v.p, len(v.p.GPUs)
	out := make([]demand, p.chunkCount(rank, Output))
	all := func(k int) []Contribution {
		of := make([]Contribution, n)
		for r := range of {
			of[r] = Contribution{r, k}
		}
		return of
	}
	cf := v.period
	for k := range out {
		d := demand{op: anyOp}
		switch p.Collective {
		case AllReduce:
			d.of = all(k)
		case AllGather:
			d.of = []Contribution{{k / cf, k % cf}}
		case ReduceScatter:
			d.of = all(rank*cf + k)
		case AllToAll:
			d.of = []Contribution{{k / cf, rank*cf + k%cf}}
		case Broadcast:
			d.of = []Contribution{{p.Root, k}}
		case Reduce:
			if rank == p.Root {
				d.of = all(k)
			} else {
				d.untouched = true
			}
		case SendRecv:
			d.of = []Contribution{{(rank + n - 1) % n, k}}
		default:
			d.free = true
		}
		out[k] = d
	}
	for i := range p.Postcondition {
		c := &p.Postcondition[i]
		if c.Rank != rank {
			continue
		}
		for k := range c.Size {
			of := slices.Clone(c.Of)
			for j := range of {
				of[j].Index += k
			}
			slices.SortFunc(of, func(a, b Contribution) int {
				if a.Rank != b.Rank {
					return a.Rank - b.Rank
				}
				return a.Index - b.Index
			})
			out[c.Index+k] = demand{of: of, op: c.Op}
		}
	}
	return out
}

func (v *verifier) want(rank int) []demand {
	if v.wanted[rank] == nil {
		v.wanted[rank] = v.demands(rank)
		for i := range v.wanted[rank] {
			v.wanted[rank][i].ofAll(len(v.p.GPUs))
		}
	}
	return v.wanted[rank]
}

// checkResult compares the buffers of a rank, at the end of its launch, with what the collective requires. Out of
// place, input must be unchanged.
func (v *verifier) checkResult(rank int, k *clock) error {
	launch := v.launched[rank] - 1
	for i, d := range v.want(rank) {
		at := v.cellAt(rank, OutputPlane, i, launch)
		last := -1
		for a := range v.exist(rank, OutputPlane, i, launch) {
			c := &v.cells[at+a]
			before := last
			if last = a; before >= 0 && !d.untouched && c.value == v.cells[at+before].value {
				continue // same value and same demand as before
			}
			place, part := Place{rank, OutputPlane, i, 1}, sub{0, int32(a)}
			switch {
			case d.free:
			case d.untouched:
				if c.write.comp != int32(v.caller+rank) {
					return v.wrong(c, &place, part, launch, "the output of a rank other than the root is not the plan's to write")
				}
			default:
				if err := v.checkValue(c, &d, &place, part, launch); err != nil {
					return err
				}
			}
		}
	}
	if v.p.InPlace || v.p.unstated() {
		return nil
	}
	for i := range v.p.chunkCount(rank, Input) {
		at := v.cellAt(rank, InputPlane, i, launch)
		for a := range v.exist(rank, InputPlane, i, launch) {
			c := &v.cells[at+a]
			if c.write.comp != int32(v.caller+rank) && (c.write.at.block < 0 || v.hookOf(v.blocks[c.write.at.block]) == 0) {
				return v.wrong(c, &Place{rank, InputPlane, i, 1}, sub{0, int32(a)}, launch,
					"the plan is not in place, so input is not the plan's to write")
			}
		}
	}
	return nil
}

// ofAll sets all, for n ranks.
func (d *demand) ofAll(n int) {
	d.all = len(d.of) == n
	for r := range d.of {
		d.all = d.all && d.of[r] == Contribution{r, d.of[0].Index}
	}
}

// holds reports whether a value is what is demanded in a launch.
func (v *verifier) holds(value int32, d *demand, launch int) bool {
	if int(v.values.nodes[value].terms) != len(d.of) {
		return false
	}
	if d.all {
		if l, ok := v.values.everyRank(value, len(d.of)); ok {
			return l == leaf{int32(launch), 0, int32(d.of[0].Index)}
		}
	}
	return v.values.is(value, int32(launch), d.of)
}

func (v *verifier) checkValue(c *cell, d *demand, pl *Place, part sub, launch int) error {
	n := &v.values.nodes[c.value]
	if !v.holds(c.value, d, launch) {
		return v.wrong(c, pl, part, launch, "")
	}
	if len(d.of) < 2 {
		return nil
	}
	switch {
	case n.op == mixed:
		return v.wrong(c, pl, part, launch, "the reduction mixes operators")
	case d.op == anyOp && v.reduces && v.report.Operator != n.op:
		return v.wrong(c, pl, part, launch, fmt.Sprintf("it is reduced with %q and other output with %q", n.op,
			v.report.Operator))
	case d.op != anyOp && d.op != n.op:
		return v.wrong(c, pl, part, launch, fmt.Sprintf("it is reduced with %q where the postcondition says %q", n.op, d.op))
	}
	v.reduces, v.report.Operator = true, n.op
	return nil
}

// MovesChunks reports whether the plan's result alone implies that it accepts even messages only: bytes of one chunk
// end up at the place of another, or its chunks do not form blocks. The way a plan computes its result may also imply
// it: see Report.EvenOnly.
func (p *Plan) MovesChunks() bool {
	_, period, custom := p.blocks()
	for i := range p.Postcondition {
		c := &p.Postcondition[i]
		for _, t := range c.Of {
			custom = custom || t.Index%period != c.Index%period
		}
	}
	return custom
}

// Expected returns, for every output chunk of a rank, the input chunks whose reduction it must contain, sorted by rank.
// The list is empty for chunks that the collective does not constrain.
func (p *Plan) Expected(rank int) [][]Contribution {
	_, period, _ := p.blocks()
	v := verifier{resolved: &resolved{period: period}, p: p}
	var out [][]Contribution
	for _, d := range v.demands(rank) {
		out = append(out, d.of)
	}
	return out
}
