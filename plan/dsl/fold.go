package dsl

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/symmetry"
)

// Fold compiles a program with symmetric ranks without the operations of all of them: write writes the program that
// AlgoSpec.Only selects, and is called a few times. The result is nil when the ranks that were written show no
// symmetry. The author vouches for the ranks that were not written: the symmetry derives their operations from the
// ranks that were.
func Fold(write func(only func(rank int) bool) (*CollectiveProgram, error)) (*symmetry.Folded, error) {
	compile := func(only func(rank int) bool) (*plan.Plan, error) {
		p, err := write(only)
		if err != nil {
			return nil, err
		}
		return p.Compile()
	}
	tables, err := compile(func(int) bool { return false })
	if err != nil {
		return nil, err
	}
	return symmetry.FoldRanks(tables, func(has func(rank int) bool) (*plan.Plan, error) { return compile(has) })
}
