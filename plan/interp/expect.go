package interp

import (
	"bytes"
	"fmt"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
)

// CheckCollective runs p for the given sizes, on random integers as wide as a unit allows, and compares every output
// with the collective's definition. It returns the first difference, a *DeadlockError, or nil.
func CheckCollective(p *plan.Plan, sizes []uint64, seed uint64) error {
	return CheckReduction(p, sizes, elementType(p.Alignment), datatype.Sum, seed)
}

// CheckReduction is CheckCollective for elements of type t and, where the plan leaves the operator to the caller, op:
// sum, min, max or prod. Floating-point results may differ from the definition's by as much as another order of
// operands explains, see hostreduce.Check.
func CheckReduction(p *plan.Plan, sizes []uint64, t datatype.Type, op datatype.Op, seed uint64) error {
	cfg, err := checked(p, sizes, t, op)
	if err != nil {
		return err
	}
	cfg.Seed = seed
	return Run(p, cfg)
}

// checked returns a Config that fills inputs and compares every launch's output with the definition.
func checked(p *plan.Plan, sizes []uint64, t datatype.Type, op datatype.Op) (Config, error) {
	inputs := make([][][]byte, len(sizes)) // by launch and rank
	layouts := make([]*plan.Layout, len(sizes))
	for i, size := range sizes {
		l, err := p.NewLayout(size)
		if err != nil {
			return Config{}, err
		}
		layouts[i] = l
		for r := range p.GPUs {
			in := make([]byte, l.Size(r, plan.Input))
			hostreduce.Fill(in[:int64(len(in))/max(1, t.Size())*t.Size()], t, uint64(i), r)
			inputs[i] = append(inputs[i], in)
		}
	}
	fixed, _ := p.Operator()
	return Config{Sizes: sizes, Type: t, Op: op,
		Fill: func(rank, launch int, in []byte) { copy(in, inputs[launch][rank]) },
		Check: func(rank, launch int, in, out []byte) error {
			if !p.InPlace && !bytes.Equal(in, inputs[launch][rank]) {
				return fmt.Errorf("interp: plan %s: launch %d changed the input of rank %d", p.Name, launch+1, rank)
			}
			return compare(p, layouts[launch], inputs[launch], rank, launch, out, t, fixed.Or(op))
		}}, nil
}

// elementType returns the widest integer that fits in a unit.
func elementType(alignment int64) datatype.Type {
	switch {
	case alignment%8 == 0:
		return datatype.Uint64
	case alignment%4 == 0:
		return datatype.Uint32
	}
	return datatype.Uint8
}

// compare checks one rank's output, chunk by chunk.
func compare(p *plan.Plan, l *plan.Layout, inputs [][]byte, rank, launch int, out []byte, t datatype.Type,
	op datatype.Op) error {
	for k, terms := range p.Expected(rank) {
		if len(terms) == 0 {
			continue
		}
		at := l.Offset(k)
		_, n := l.Locate(k, 0)
		want, srcs := make([]byte, n), make([][]byte, len(terms))
		for i, c := range terms {
			from := l.Offset(c.Index)
			srcs[i] = inputs[c.Rank][from : from+n]
		}
		if err := hostreduce.Reduce(want, srcs, t, op, [8]byte{}, len(srcs)); err != nil {
			return err
		}
		if wrong, first := hostreduce.Check(out[at:at+n], want, t, op, len(terms)); wrong != 0 {
			return fmt.Errorf("interp: plan %s: launch %d: chunk %d of the output of rank %d (%d bytes at %d) is wrong: %d "+
				"elements of %v, the first is %d",
				p.Name, launch+1, k, rank, n, at, wrong, t, first)
		}
	}
	return nil
}
