package verify

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/plan"
)

// demand is what an output chunk must contain.
type demand struct {
	plan.Demand
	all bool // of one chunk of all ranks: the same chunk of each
}

func (v *verifier) want(rank int) []demand {
	if v.wanted[rank] == nil {
		for _, d := range v.p.Demands(rank) {
			v.wanted[rank] = append(v.wanted[rank], demand{d, everyRank(d.Of, len(v.p.GPUs))})
		}
	}
	return v.wanted[rank]
}

// checkResult compares the buffers of a rank, at the end of its launch, with what the collective requires. Out of
// place, input must be unchanged.
func (v *verifier) checkResult(rank int) error {
	launch := v.launched[rank] - 1
	for i, d := range v.want(rank) {
		at := v.cellAt(rank, plan.OutputPlane, i, launch)
		last := -1
		for a := range v.exist(rank, plan.OutputPlane, i, launch) {
			c := &v.cells[at+a]
			before := last
			if last = a; before >= 0 && !d.Untouched && c.value == v.cells[at+before].value {
				continue // same value and same demand as before
			}
			place, part := plan.Place{Rank: rank, Plane: plan.OutputPlane, Index: i, Size: 1}, sub{0, int32(a)}
			switch {
			case d.Free:
			case d.Untouched:
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
	if v.p.InPlace || v.p.Unstated() {
		return nil
	}
	for i := range v.p.ChunkCount(rank, plan.Input) {
		at := v.cellAt(rank, plan.InputPlane, i, launch)
		for a := range v.exist(rank, plan.InputPlane, i, launch) {
			c := &v.cells[at+a]
			if c.write.comp != int32(v.caller+rank) && (c.write.at.block < 0 || v.hookOf(v.blocks[c.write.at.block]) == 0) {
				return v.wrong(c, &plan.Place{Rank: rank, Plane: plan.InputPlane, Index: i, Size: 1}, sub{0, int32(a)}, launch,
					"the plan is not in place, so input is not the plan's to write")
			}
		}
	}
	return nil
}

// everyRank reports whether contributions are the same chunk of each of n ranks.
func everyRank(of []plan.Contribution, n int) bool {
	all := len(of) == n
	for r := range of {
		all = all && of[r] == plan.Contribution{Rank: r, Index: of[0].Index}
	}
	return all
}

// holds reports whether a value meets a demand in a launch.
func (v *verifier) holds(value int32, d *demand, launch int) bool {
	if int(v.values.nodes[value].terms) != len(d.Of) {
		return false
	}
	if d.all {
		if l, ok := v.values.everyRank(value, len(d.Of)); ok {
			return l == leaf{int32(launch), 0, int32(d.Of[0].Index)}
		}
	}
	return v.values.is(value, int32(launch), d.Of)
}

func (v *verifier) checkValue(c *cell, d *demand, pl *plan.Place, part sub, launch int) error {
	n := &v.values.nodes[c.value]
	if !v.holds(c.value, d, launch) {
		return v.wrong(c, pl, part, launch, "")
	}
	if len(d.Of) < 2 {
		return nil
	}
	switch {
	case n.op == mixed:
		return v.wrong(c, pl, part, launch, "the reduction mixes operators")
	case d.Op == plan.AnyOp && v.reduces && v.report.Operator != n.op:
		return v.wrong(c, pl, part, launch, fmt.Sprintf("it is reduced with %q and other output with %q", n.op,
			v.report.Operator))
	case d.Op != plan.AnyOp && d.Op != n.op:
		return v.wrong(c, pl, part, launch, fmt.Sprintf("it is reduced with %q where the postcondition says %q", n.op, d.Op))
	}
	v.reduces, v.report.Operator = true, n.op
	v.report.InRankOrder = v.report.InRankOrder && v.values.inRankOrder(c.value)
	return nil
}

// delivered checks what the caller reads behind a signal_hook: it must be what the collective demands.
func (v *verifier) delivered(b *blockState, m *plan.Move, parts []sub) error {
	src := &m.Src[0]
	for _, part := range parts {
		d := &v.want(src.Rank)[src.Index+int(part.chunk)]
		if d.Free || d.Untouched {
			continue
		}
		at := plan.Place{Rank: src.Rank, Plane: src.Plane, Index: src.Index + int(part.chunk), Size: 1}
		one := sub{0, part.atom}
		err := v.checkValue(&v.cells[v.cellOf(src, part, b.launch)], d, &at, one, b.launch)
		if e := (*Violation)(nil); errors.As(err, &e) {
			e.Events = append(e.Events, v.event(event{int32(b.id), int32(b.pc), int32(b.launch)}, "reads", v.where(&at, one)))
			if e.Kind == DataRace {
				e.Detail = "nothing keeps the hook from being raised before that"
			}
			e.Hint = "signal_hook only when the output that the hook guards is final"
		}
		if err != nil {
			return err
		}
	}
	return nil
}
