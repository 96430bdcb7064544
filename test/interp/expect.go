package interp

import (
	"bytes"
	"fmt"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor/planrun"
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

// CheckCounts is CheckCollective for a plan with counts: of each block of output, the bytes before its count are
// compared.
func CheckCounts(p *plan.Plan, sizes []uint64, counts [][]int64, seed uint64) error {
	cfg, err := checked(p, sizes, datatype.Uint8, datatype.Sum)
	if err != nil {
		return err
	}
	cfg.Seed, cfg.Counts = seed, counts
	cfg.Check = func(rank, launch int, _, out []byte) error {
		block := int64(len(out)) / int64(len(p.GPUs))
		for src := range p.GPUs {
			n := min(block, counts[src][rank])
			in := make([]byte, len(out))
			cfg.Fill(src, launch, in)
			if !bytes.Equal(out[block*int64(src):][:n], in[block*int64(rank):][:n]) {
				return fmt.Errorf("interp: plan %s: launch %d: rank %d got other bytes from rank %d than it sent", p.Name, launch+1,
					rank, src)
			}
		}
		return nil
	}
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
			d := planrun.Definition{Type: t, Op: fixed.Or(op), Input: func(rank int, off, n int64) []byte {
				return inputs[launch][rank][off : off+n]
			}}
			if err := d.Check(p, layouts[launch], rank, out); err != nil {
				return fmt.Errorf("interp: plan %s: launch %d: %w", p.Name, launch+1, err)
			}
			return nil
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
