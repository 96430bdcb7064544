package plan

import "github.com/goccl/goccl/datatype"

// ReduceOp is the operator of a reducing op. The empty operator stands for the operator that the caller of the
// collective chooses.
type ReduceOp string

// The operators of the format. Prod is an extension; MSCCL++ sums whatever operator the file names.
const (
	CallerOp ReduceOp = ""
	Sum      ReduceOp = "sum"
	Min      ReduceOp = "min"
	Max      ReduceOp = "max"
	Prod     ReduceOp = "prod"
)

var operators = map[ReduceOp]datatype.Op{Sum: datatype.Sum, Min: datatype.Min, Max: datatype.Max, Prod: datatype.Prod}

// Valid reports whether o is one of the operators.
func (o ReduceOp) Valid() bool {
	_, ok := operators[o]
	return ok || o == CallerOp
}

// Or returns the operator, or caller where the caller of the collective chooses it.
func (o ReduceOp) Or(caller datatype.Op) datatype.Op {
	if op, ok := operators[o]; ok {
		return op
	}
	return caller
}

// Operator returns the operator of the plan's reductions: the first one that a reduction specifies, or CallerOp. mixed
// reports whether reductions specify different ones.
func (p *Plan) Operator() (op ReduceOp, mixed bool) {
	first := true
	for r := range p.GPUs {
		for _, o := range p.GPUs[r].Ops() {
			if !o.Name.Kind().Reduces {
				continue
			}
			mixed = mixed || !first && o.ReduceOp != op
			if first || op == CallerOp {
				op = o.ReduceOp
			}
			first = false
		}
	}
	return op, mixed
}
