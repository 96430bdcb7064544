package synth

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/plan/verify"
)

// Options say what to search for.
type Options struct {
	Graph      *fabric.Graph
	Collective plan.Collective // all-gather, reduce-scatter, all-reduce, broadcast, all-to-all
	Root       int             // of a broadcast
	InPlace    bool
	Only       bool              // leave out the programs that ship with goccl
	Size       int64             // message for which the plan is to be fast
	Machine    *simulate.Machine // rates and latencies of thread blocks; its hosts and links are the graph's
	Name       string            // of the plan; empty: made from the collective and the topology
}

// Candidate is one plan that was simulated.
type Candidate struct {
	Name    string  // "synthesised, " and its form, or the name of a shipped program
	Shipped bool    // a program of plan/programs
	Micros  float64 // simulated
	Err     error   // why it has no time

	trees int
	build func() (*plan.Plan, error)
}

// Prove builds the plan and verifies it.
func (c *Candidate) Prove() (*plan.Plan, error) {
	p, _, err := c.prove()
	return p, err
}

func (c *Candidate) prove() (p *plan.Plan, r *verify.Report, err error) {
	if p, err = c.build(); err == nil {
		r, err = verify.Check(p, verify.Options{})
	}
	return p, r, err
}

// Result is the outcome of a search.
type Result struct {
	Plan        *plan.Plan
	Best        Candidate
	Simulated   *simulate.Result
	Bound       *Bound
	BoundMicros float64 // no plan takes less time
	Trees       int     // per root; of an all-to-all chunks per pair; of a shipped plan 0
	Candidates  []Candidate
	Checked     *verify.Report
}

// ErrNothing is the class of the error when no candidate runs on the topology.
var ErrNothing = errors.New("no plan found")

// Names of plans say for which topology they were found: synth_allgather_on_ring-6.
const namePrefix, nameOf = "synth_", "_on_"

// Topology returns the topology for which a plan was found, from its name, or "".
func Topology(p *plan.Plan) string {
	rest, found := strings.CutPrefix(p.Name, namePrefix)
	_, name, named := strings.Cut(rest, nameOf)
	if !found || !named {
		return ""
	}
	return name
}

// maxBlocks bounds the thread blocks per rank of a candidate.
const maxBlocks = 96

// Run searches the fastest plan.
//
//  1. pack trees, and look for shallow ones
//  2. write each in several shapes, and simulate them and the shipped programs for the size
//  3. return the fastest that the verifier proves
func Run(o Options) (*Result, error) {
	o.Name = cmp.Or(o.Name, fmt.Sprintf("%s%s%s%s", namePrefix, o.Collective, nameOf, o.Graph.Name))
	roots := []int{o.Root}
	if o.Collective != plan.Broadcast {
		roots = roots[:0]
		for r := range o.Graph.Ranks() {
			roots = append(roots, r)
		}
	}
	o.Size -= o.Size % int64(16*o.Graph.Ranks())
	list, bound, err := families(o, roots)
	if err != nil {
		return nil, err
	}
	out := &Result{Bound: bound, BoundMicros: bound.Micros(o.Size, len(roots))}
	machine := *o.Machine
	machine.Fabric = o.Graph
	if o.Collective != plan.AllToAll {
		list = append(list, shallowFamily(o, &machine, roots, list[0]))
	}
	out.search(o, &machine, list)
	for _, p := range programs.All() {
		if p.Collective == o.Collective && !o.Only {
			shape := programs.Options{Ranks: o.Graph.Ranks(), Hosts: max(1, o.Graph.Hosts()), InPlace: o.InPlace, Root: o.Root}
			out.try(o, &machine, Candidate{Name: p.Name, Shipped: true,
				build: func() (*plan.Plan, error) { return p.Build(shape) }})
		}
	}
	return out, out.choose(o, &machine)
}

// try simulates a candidate, and returns its time.
func (r *Result) try(o Options, m *simulate.Machine, c Candidate) float64 {
	p, err := c.build()
	if err == nil {
		var run *simulate.Result
		if run, err = simulate.Run(p, m, o.Size); err == nil {
			c.Micros = run.Micros
		}
	}
	c.Err = err
	r.Candidates = append(r.Candidates, c)
	return c.time()
}

// time is endless for a candidate that has none.
func (c *Candidate) time() float64 {
	if c.Err != nil {
		return math.Inf(1)
	}
	return c.Micros
}

// choose sorts the candidates by time and takes the first that is proven.
func (r *Result) choose(o Options, m *simulate.Machine) error {
	slices.SortStableFunc(r.Candidates, func(a, b Candidate) int { return cmp.Compare(a.time(), b.time()) })
	for i := range r.Candidates {
		c := &r.Candidates[i]
		if c.Err != nil {
			break
		}
		p, report, err := c.prove()
		if err == nil {
			r.Checked = report
			r.Simulated, err = simulate.Run(p, m, o.Size)
		}
		if err != nil {
			c.Err = err
			continue
		}
		r.Plan, r.Best, r.Trees = p, *c, c.trees
		return nil
	}
	return fmt.Errorf("synth: %s: %w: the first failure: %w", o.Graph.Name, ErrNothing, r.Candidates[0].Err)
}

// The values of a shape that the search tries.
var (
	lanesTried     = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32}
	instancesTried = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32}
	unitsTried     = []uint64{0, 1 << 20, 512 << 10, 256 << 10, 128 << 10, 64 << 10, 32 << 10, 16 << 10}
)

// point is a shape in the lists of values, and the form that has it.
type point struct {
	family                 int
	lanes, instances, unit int
}

// starts are where climbs may begin: for little data, much, and much without a pipeline.
var starts = []point{{}, {lanes: 3, instances: 5, unit: 3}, {lanes: 3, instances: 7}}

// search looks for the fastest form and shape: it climbs from the starts of each form.
func (r *Result) search(o Options, m *simulate.Machine, list []family) {
	times := map[point]float64{}
	eval := func(x point) float64 {
		if x.lanes < 0 || x.lanes >= len(lanesTried) || x.instances < 0 || x.instances >= len(instancesTried) ||
			x.unit < 0 || x.unit >= len(unitsTried) {
			return math.Inf(1)
		}
		if t, ok := times[x]; ok {
			return t
		}
		f := list[x.family]
		s := shape{lanes: lanesTried[x.lanes], instances: instancesTried[x.instances], unit: unitsTried[x.unit]}
		times[x] = math.Inf(1)
		if f.fits(o, s) {
			times[x] = r.try(o, m, Candidate{Name: fmt.Sprintf("synthesised, %v, %v", f, s), trees: f.trees(),
				build: func() (*plan.Plan, error) { return f.build(o, s) }})
		}
		return times[x]
	}
	var from []point
	for i := range list {
		for _, x := range starts {
			x.family = i
			from = append(from, x)
		}
	}
	slices.SortStableFunc(from, func(a, b point) int { return cmp.Compare(eval(a), eval(b)) })
	for _, x := range from {
		if t := eval(x); t < hopeless*eval(from[0]) || math.IsInf(t, 1) { // a neighbour of what does not fit may
			climb(x, eval)
		}
	}
}

// hopeless is how many times longer than at the best start a plan takes where no climb begins.
const hopeless = 2

// steps are what a climb tries, in this order: other values of one kind, and lanes for instances, since both take
// thread blocks. Two values further on is twice as much.
var steps = []point{{instances: 1}, {instances: 2}, {instances: -1}, {unit: 1}, {unit: 2}, {unit: -1}, {lanes: 1},
	{lanes: 2}, {lanes: -1}, {lanes: -2}, {lanes: -2, instances: 2}, {lanes: 2, instances: -2}}

// climb takes steps as long as one helps.
func climb(at point, eval func(point) float64) {
	for improved := true; improved; {
		improved = false
		for _, d := range steps {
			next := point{at.family, at.lanes + d.lanes, at.instances + d.instances, at.unit + d.unit}
			if eval(next) < eval(at) {
				at, improved = next, true
			}
		}
	}
}
