package verify

import (
	"fmt"

	"github.com/goccl/goccl/plan"
)

// verifier runs a plan for one shape of its messages. Its state has four parts, each with an invariant that holds
// between steps. Beside them are the thread blocks, which a step moves on, and what the launches must compute.
type verifier struct {
	*resolved
	p      *plan.Plan
	shape  *messageShape
	report *Report
	opts   *Options
	second *second

	blocks   []*blockState
	quotient *quotient // nil when all ranks run

	timing
	counting
	memory
	schedule

	wanted  [][]demand // by rank
	reduces bool       // report.Operator is set
}

func newVerifier(p *plan.Plan, r *resolved, sh *messageShape, report *Report, opts *Options) (*verifier, error) {
	n := len(p.GPUs)
	v := &verifier{resolved: r, p: p, shape: sh, report: report, opts: opts, wanted: make([][]demand, n),
		timing: timing{portOf: map[[2]int]int{}, linkPorts: map[int][]int{}, caller: len(r.programs),
			joined: map[[2]*clock]*clock{}, began: make([]*clock, n)},
		counting: counting{barriers: map[[2]int]*barrier{}},
		memory: memory{values: newValues(), waiting: map[int][]int{}, repeated: map[int][]access{},
			packets: p.UsesPackets()},
		schedule: schedule{launched: make([]int, n), running: make([]int, n)}}
	if r.symmetry != nil {
		v.quotient = &quotient{Group: r.symmetry, v: v, clocks: map[framedClock]*clock{}}
		v.values.quotient = v.quotient
	}
	for b, prog := range r.programs {
		if err := v.addBlock(b, prog); err != nil {
			return nil, err
		}
	}
	if report.Steps > opts.MaxSteps {
		return nil, fmt.Errorf("plan %s: %w: %d ops to execute, the bound is %d", p.Name, ErrTooLarge, report.Steps,
			opts.MaxSteps)
	}
	v.queued = make([]bool, len(v.blocks))
	v.layClocks()
	if err := v.layCells(); err != nil {
		return nil, err
	}
	if err := v.fits(); err != nil {
		return nil, err
	}
	v.layCounters()
	return v, nil
}

// addBlock adds the thread block that runs prog, unrolled for each launch.
func (v *verifier) addBlock(id int, prog []plan.Step) error {
	b := &blockState{id: id, rank: v.rankOf[id], lanes: map[int][]*clock{}}
	v.blocks = append(v.blocks, b)
	if !v.quotient.own(b.rank) { // it never runs; messages name its ops
		rep := v.blocks[v.first[v.quotient.Representative(b.rank)]+id-v.first[b.rank]]
		b.done, b.program, b.programs = true, rep.program, rep.programs
		return nil
	}
	for launch := range v.report.Launches {
		if launch == 0 || launch < len(v.shape.turns) || v.shape.present != nil {
			b.program = nil
			for i := range prog {
				if err := v.unroll(b, &prog[i], launch); err != nil {
					return err
				}
			}
		}
		b.programs = append(b.programs, b.program)
		v.report.Steps += int64(len(b.program))
	}
	b.program = b.programs[0]
	return nil
}
