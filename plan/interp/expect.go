package interp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
)

// CheckCollective runs p for the sizes given, on random 64-bit integers, and compares every output with the collective's definition. It
// returns the first difference, a *DeadlockError, or nil.
func CheckCollective(p *plan.Plan, sizes []uint64, seed uint64) error {
	inputs := make([][][]byte, len(sizes)) // by launch and rank
	layouts := make([]*plan.Layout, len(sizes))
	for i, size := range sizes {
		l, err := p.NewLayout(size)
		if err != nil {
			return err
		}
		layouts[i] = l
		for r := range p.GPUs {
			inputs[i] = append(inputs[i], fill(l.Size(r, plan.Input), i, r))
		}
	}
	return Run(p, Config{Sizes: sizes, Type: elementType(p.Alignment), Op: datatype.Sum, Seed: seed,
		Fill: func(rank, launch int, in []byte) { copy(in, inputs[launch][rank]) },
		Check: func(rank, launch int, in, out []byte) error {
			if !p.InPlace && !bytes.Equal(in, inputs[launch][rank]) {
				return fmt.Errorf("interp: plan %s: launch %d changed the input of rank %d", p.Name, launch+1, rank)
			}
			return compare(p, layouts[launch], inputs[launch], rank, launch, out)
		}})
}

// elementType is the widest integer that a unit holds.
func elementType(alignment int64) datatype.Type {
	switch {
	case alignment%8 == 0:
		return datatype.Uint64
	case alignment%4 == 0:
		return datatype.Uint32
	}
	return datatype.Uint8
}

func fill(n int64, launch, rank int) []byte {
	rng := rand.New(rand.NewPCG(uint64(launch), uint64(rank)))
	b := make([]byte, (n+7)/8*8)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rng.Uint64())
	}
	return b[:n]
}

// compare checks one rank's output, chunk by chunk.
func compare(p *plan.Plan, l *plan.Layout, inputs [][]byte, rank, launch int, out []byte) error {
	for k, terms := range p.Expected(rank) {
		if len(terms) == 0 {
			continue
		}
		at := l.Offset(k)
		_, n := l.Locate(k, 0)
		want := make([]byte, n)
		for i, t := range terms {
			from := l.Offset(t.Index)
			src := inputs[t.Rank][from : from+n]
			if i == 0 {
				copy(want, src)
			} else {
				reduce(want, src, elementType(p.Alignment), reduction(p))
			}
		}
		if got := out[at : at+n]; !bytes.Equal(got, want) {
			return fmt.Errorf("interp: plan %s: launch %d: chunk %d of the output of rank %d (%d bytes at %d) is wrong", p.Name, launch+1, k, rank, n, at)
		}
	}
	return nil
}

// reduction is the operator of the plan's first reducing op; CheckCollective is for plans with one.
func reduction(p *plan.Plan) datatype.Op {
	m := machine{cfg: Config{Op: datatype.Sum}}
	for r := range p.GPUs {
		for b := range p.GPUs[r].ThreadBlocks {
			for _, s := range p.Program(r, b) {
				for _, s := range append(s.Body, s) {
					if len(s.Moves) > 0 && len(s.Moves[0].Src) > 1 {
						return m.operator(s.Op.ReduceOp)
					}
				}
			}
		}
	}
	return datatype.Sum
}
