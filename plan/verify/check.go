package verify

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/symmetry"
)

// Options bounds the work of Check. Zero values mean the defaults.
type Options struct {
	MaxSteps int64 // ops executed symbolically, over all launches and message shapes; default 1<<26
	MaxCells int64 // places tracked; default 1<<24
	MaxBytes int64 // of memory, estimated; default 2<<30
	Whole    bool  // examine every rank and chunk, even where one could stand for others
	Alike    bool  // use symmetry even with few ranks, and answer with its counterexample

	every bool // run all combinations of launches, for tests
}

// Report describes a correct plan.
type Report struct {
	// EvenOnly is set when the plan is correct only for messages that divide into equal chunks (Layout.Even): it stores
	// bytes of one chunk at the place of another, which may be shorter. An executor must reject other messages.
	EvenOnly bool

	// Operator is the operator of all output of a named collective; CallerOp when the caller chooses it or the plan
	// reduces nothing.
	Operator plan.ReduceOp

	// InRankOrder is set when every reduction is ((x0 + x1) + x2) + … in the order of ranks, and Once when no partial
	// result is stored, which would round it to the element type.
	InRankOrder, Once bool

	Examined int   // ranks that were run; with a symmetry, they stand for the others
	Launches int   // consecutive launches examined
	Shapes   int   // message shapes examined; together they stand for all sizes from MinSize to MaxSize
	Steps    int64 // ops executed
}

// Check proves that the plan is correct and describes the proof, or returns the reason why it is not: a *plan.Error if
// the structure is invalid, a *Violation with a counterexample when the plan does not compute its collective, can hang,
// or has a race, a *Violation of kind Unverified when all else is right and the plan does not state what its collective
// is, and an error of class ErrTooLarge when it exceeds the bounds in opts.
//
// How it works:
//
//  1. Division (shape.go): an op never changes the offset of a byte within its chunk, so the plan splits into
//     independent plans, one per offset. Offsets that the same ops cover (slices, pipeline windows) are equal: one atom
//     stands for all of them, whatever the message size.
//  2. Execution (exec.go): all ranks run their ops for two launches in a row (three with double scratch) on
//     symbolic values: a value is the list of input chunks that were combined into it. Signals, semaphores, barriers
//     and packets only ever enable, and each has one consumer at a time (counters.go checks this), so every
//     interleaving reaches the same end: one run shows whether any can hang.
//  3. Order (clock.go): vector clocks record the happens-before order between thread blocks. race.go
//     requires that they order all conflicting accesses. The run is one interleaving; the clocks hold for all of them.
//  4. Turns: between launches the caller of each rank reads its output and rewrites both buffers. Step 3 includes these
//     accesses, so a missing entry or exit handshake is a race like any other. At this point the results are compared
//     with what the collective requires (values.go).
func Check(p *plan.Plan, opts Options) (*Report, error) {
	if err := p.Validate(&plan.Capacity); err != nil {
		return nil, err
	}
	if len(p.GPUs) < foldFrom && !opts.Alike || opts.Whole {
		return check(p, nil, opts)
	}
	report, err := checkAlike(p, opts)
	if opts.Alike {
		return report, err
	}
	if v := (*Violation)(nil); errors.As(err, &v) {
		// A counterexample of the whole plan names each rank's own op and chunk.
		if r, whole := check(p, nil, opts); !errors.Is(whole, ErrTooLarge) {
			return r, whole
		}
	}
	return report, err
}

// checkAlike examines one chunk of each run that always moves together, and one rank of each orbit.
func checkAlike(p *plan.Plan, opts Options) (*Report, error) {
	small, group := p, (*symmetry.Group)(nil)
	c := symmetry.Coarsen(p)
	if c != nil {
		small = c.Plan
	}
	if f := symmetry.Fold(small); f != nil {
		small, group = f.Plan, f.Symmetry
	}
	report, err := check(small, group, opts)
	if v := (*Violation)(nil); c != nil && errors.As(err, &v) {
		restore(v, p, c)
	}
	return report, err
}

// foldFrom is the number of ranks from which Check looks for symmetry: with fewer, a run of all ranks is faster.
const foldFrom = 16

// CheckFolded is Check of the plan of all ranks.
func CheckFolded(f *symmetry.Folded, opts Options) (*Report, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return check(f.Plan, f.Symmetry, opts)
}

// check examines a valid plan. With a symmetry, it has the programs of representatives only.
func check(p *plan.Plan, s *symmetry.Group, opts Options) (*Report, error) {
	opts.MaxSteps = cmp.Or(opts.MaxSteps, 1<<26)
	opts.MaxCells = cmp.Or(opts.MaxCells, 1<<24)
	opts.MaxBytes = cmp.Or(opts.MaxBytes, 2<<30)
	report := &Report{Launches: 2, Examined: len(p.GPUs), Once: true}
	if s != nil {
		report.Examined = len(s.Representatives())
	}
	if p.DoubleScratch {
		report.Launches = 3
	}
	report.InRankOrder = s == nil || s.Order() == 1 // else ranks add in an order that is renamed
	for r := range p.GPUs {                         // a switch has an order that nothing states
		report.InRankOrder = report.InRankOrder && len(p.GPUs[r].SwitchGroups()) == 0
	}
	report.EvenOnly = p.MovesChunks()
	res := resolveAll(p, s)
	if err := checkShapes(p, res, report, &opts); err != nil {
		return nil, err
	}
	if p.Unstated() {
		return nil, &Violation{Kind: Unverified, Plan: p.Name,
			Detail: fmt.Sprintf("it cannot hang and has no race, but nothing says what the collective %q must compute",
				p.Collective),
			Hint: "state a postcondition, or run the plan as trusted"}
	}
	return report, nil
}

// ErrTooLarge is the class of the error for a plan that exceeds Options. Such a plan is not examined, so it may
// be correct or not.
var ErrTooLarge = fmt.Errorf("too large to verify")

// resolved is the plan with every op resolved, and the numbering that all shapes share.
type resolved struct {
	plan     *plan.Plan
	programs [][]plan.Step // by thread block, in rank order; behind the blocks of a rank, its caller at each hook
	rankOf   []int         // rank of a thread block
	first    []int         // first thread block of a rank, and the total at the end
	links    []plan.Link
	link     func(rank int, t plan.ChannelType, id int) int // index in links
	semStart []int                                          // index of a rank's first semaphore among all semaphores
	sems     int
	period   int
	linksOf  func(rank int) (first, end int)
	symmetry *symmetry.Group // only representatives have programs
}

// resolveAll resolves all ranks, or with a symmetry the representatives.
func resolveAll(p *plan.Plan, s *symmetry.Group) *resolved {
	links := p.Links()
	r := &resolved{plan: p, links: links.All, link: links.Index, linksOf: links.Of, symmetry: s}
	_, r.period, _ = p.Blocks()
	for rank := range p.GPUs {
		r.first = append(r.first, len(r.programs))
		r.semStart = append(r.semStart, r.sems)
		r.sems += len(p.GPUs[rank].Semaphores)
		rep := rank
		if s != nil {
			rep = s.Representative(rank)
		}
		for b := range p.GPUs[rep].ThreadBlocks {
			var steps []plan.Step
			if rep == rank {
				steps = p.Program(rank, b)
			}
			r.programs = append(r.programs, steps)
			r.rankOf = append(r.rankOf, rank)
		}
		if s == nil { // a plan with hooks has no symmetry
			for h := range p.GPUs[rank].Hooks() {
				r.programs = append(r.programs, p.CallerProgram(rank, h))
				r.rankOf = append(r.rankOf, rank)
			}
		}
	}
	r.first = append(r.first, len(r.programs))
	return r
}

// restore gives the places of a counterexample of the coarsened plan their own numbers: the first chunk of a run.
func restore(v *Violation, p *plan.Plan, c *symmetry.Coarse) {
	for i := range v.Events {
		w := v.Events[i].Where
		if w == nil {
			continue
		}
		chunk := w.Message / c.OfChunk(1).Message
		l := p.OfChunk(chunk)
		w.Place.Index = c.First(w.Place.Plane, w.Place.Index)
		size := w.Hi - w.Lo
		w.Lo, _ = l.Locate(w.Place.Index, w.Lo%chunk)
		w.Hi, w.Message = w.Lo+size, l.Message
	}
}

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
	b := &blockState{id: id, rank: v.rankOf[id], threads: map[int][]*clock{}}
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
