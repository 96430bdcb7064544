package planrun

import (
	"fmt"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
)

// Definition is what a collective computes from known inputs.
type Definition struct {
	Type   datatype.Type
	Op     datatype.Op
	Scalar [8]byte                             // of a PreMulSum
	Piece  int64                               // the most bytes that Input returns at once; 0: any number
	Input  func(rank int, off, n int64) []byte // n bytes of a rank's input from byte off
}

// Check compares a rank's output, chunk by chunk, with the definition of p's collective.
func (d *Definition) Check(p *plan.Plan, l *plan.Layout, rank int, out []byte) error {
	for k, want := range p.Demands(rank) {
		terms := want.Of
		at := l.Offset(k)
		_, size := l.Locate(k, 0)
		op := d.Op
		if len(terms) == 1 {
			op = datatype.Sum
		}
		piece := size
		if d.Piece > 0 {
			piece = min(size, d.Piece)
		}
		srcs, sum := make([][]byte, len(terms)), make([]byte, piece)
		for off := int64(0); off < size && len(terms) > 0; off += piece {
			sum = sum[:min(piece, size-off)]
			for i, t := range terms {
				srcs[i] = d.Input(t.Rank, l.Offset(t.Index)+off, int64(len(sum)))
			}
			if err := hostreduce.Reduce(sum, srcs, d.Type, op, d.Scalar, len(p.GPUs)); err != nil {
				return err
			}
			have := out[at+off : at+off+int64(len(sum))]
			if wrong, first := hostreduce.Check(have, sum, d.Type, op, len(terms)); wrong != 0 {
				e := d.Type.Size()
				return fmt.Errorf("rank %d: output chunk %d (%d bytes at %d): %d elements of those from %d on are wrong, "+
					"the first is %d: % x, not % x", rank, k, size, at, wrong, off/e, off/e+first,
					have[first*e:(first+1)*e], sum[first*e:(first+1)*e])
			}
		}
	}
	return nil
}
