package datatype

import (
	"fmt"
	"strings"
)

// Op is a reduction operator. The zero value is Sum, as in NCCL.
type Op uint8

// Reduction operators, numbered as ncclRedOp_t. PreMulSum is the operator of every ncclRedOp_t made by
// RedOpCreatePreMulSum.
const (
	Sum Op = iota
	Prod
	Max
	Min
	Avg
	PreMulSum
	NumOps
)

var opNames = [NumOps]string{"sum", "prod", "max", "min", "avg", "mulsum"}

// Valid reports whether o is one of the named operators.
func (o Op) Valid() bool { return o < NumOps }

// String returns the name that nccl-tests prints.
func (o Op) String() string {
	if !o.Valid() {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return opNames[o]
}

// ParseOp parses the name of an operator.
func ParseOp(s string) (Op, error) {
	for i, n := range opNames {
		if n == s {
			return Op(i), nil
		}
	}
	if s == "premulsum" {
		return PreMulSum, nil
	}
	return 0, fmt.Errorf("datatype: unknown reduction operator %q: use one of %s", s, strings.Join(opNames[:], ", "))
}
