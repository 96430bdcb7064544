package main

import (
	"os"
	"runtime/debug"

	"github.com/goccl/goccl/dsl/programs"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/simulate"
)

// foldFrom is the number of ranks from which built-in programs are written folded.
const foldFrom = 64

// anyPlan is a plan, whole or folded.
type anyPlan struct {
	whole  *plan.Plan
	folded *plan.Folded
}

// any returns the plan, folded if it is a built-in program of many ranks that do alike.
func (s *planSource) any() (*anyPlan, error) {
	_, missing := os.Stat(s.Plan) // a file comes before a program of its name
	if prog, err := programs.Lookup(s.Plan); err == nil && s.Ranks >= foldFrom && missing != nil {
		o := s.options()
		if err := prog.Supports(o); err != nil {
			return nil, &exitError{2, err}
		}
		if f, err := prog.Fold(o); f != nil || err != nil {
			return &anyPlan{folded: f}, err
		}
	}
	debug.SetGCPercent(40) // the proof of a whole plan keeps most of what it allocates for long
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

func (p *anyPlan) check() (*plan.Report, error) {
	if p.folded != nil {
		return p.folded.Check(plan.VerifyOptions{})
	}
	return plan.Check(p.whole, plan.VerifyOptions{})
}

func (p *anyPlan) simulate(m *simulate.Machine, size int64) (*simulate.Result, error) {
	if p.folded != nil {
		return simulate.RunFolded(p.folded, m, size)
	}
	return simulate.Run(p.whole, m, size)
}
