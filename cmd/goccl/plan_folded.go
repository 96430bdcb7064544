package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/plan/symmetry"
	"github.com/goccl/goccl/plan/verify"
)

// foldFrom is the number of ranks from which built-in programs are written folded.
const foldFrom = 64

// anyPlan is a plan, whole or folded.
type anyPlan struct {
	whole  *plan.Plan
	folded *symmetry.Folded
}

// any returns the plan, folded if it is a built-in program of many ranks that do the same up to a renaming.
func (s *planSource) any() (*anyPlan, error) {
	if _, err := os.Stat(s.Plan); err != nil { // a file comes before a program of its name
		if _, err := programs.Lookup(s.Plan); err == nil {
			return s.build(s.Plan, true)
		}
	}
	debug.SetGCPercent(40) // the proof of a whole plan keeps most of its allocations for long
	p, err := s.load()
	return &anyPlan{whole: p}, err
}

// head returns the plan; of a folded one, with the programs of some ranks.
func (p *anyPlan) head() *plan.Plan {
	if p.folded != nil {
		return p.folded.Plan
	}
	return p.whole
}

// encode passes the whole plan's encoding to visit, in parts.
func (p *anyPlan) encode(visit func(part []byte) error) error {
	if p.folded != nil {
		return p.folded.Encode(visit)
	}
	if err := p.whole.Validate(&plan.Capacity); err != nil {
		return err
	}
	data := p.whole.Encode()
	if len(data) > plan.Capacity.FileBytes {
		return fmt.Errorf("%s: %w: a file of it has %d MiB, the limit is %d; use fewer ranks or instances", p.whole.Name,
			plan.ErrLimit, len(data)>>20, plan.Capacity.FileBytes>>20)
	}
	return visit(data)
}

func (p *anyPlan) check() (*verify.Report, error) {
	if p.folded != nil {
		return verify.CheckFolded(p.folded, verify.Options{})
	}
	return verify.Check(p.whole, verify.Options{})
}

// simulate predicts a run. A size that the plan does not take is rounded down to equal chunks.
func (p *anyPlan) simulate(m *simulate.Machine, size int64) (*simulate.Result, error) {
	run := func(size int64) (*simulate.Result, error) {
		if p.folded != nil {
			return simulate.RunFolded(p.folded, m, size)
		}
		return simulate.Run(p.whole, m, size)
	}
	r, err := run(size)
	if rest := size % int64(p.head().EvenUnit()); errors.Is(err, plan.ErrMessage) && 0 < rest && rest < size {
		return run(size - rest)
	}
	return r, err
}
