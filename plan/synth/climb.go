package synth

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/simulate"
)

// The values of a shape that the search tries.
var (
	lanesTried     = []int{1, 2, 4, 8, 16, 32}
	instancesTried = []int{1, 2, 4, 8, 16}
	unitsTried     = []uint64{0, 1 << 20, 256 << 10, 64 << 10, 16 << 10}
)

// point is a shape in the lists of values, and the form that has it.
type point struct {
	family                 int
	lanes, instances, unit int
}

// starts are where climbs may begin: for little data, much, and much without a pipeline.
var starts = []point{{}, {lanes: 2, instances: 3, unit: 2}, {lanes: 2, instances: 4}}

// search looks for the fastest form and shape: it climbs from the best start with a pipeline and the best without.
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
			times[x] = r.try(o, m, Candidate{Name: fmt.Sprintf("synthesised, %v, %v", f, s),
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
	for _, pipeline := range []bool{false, true} {
		if i := slices.IndexFunc(from, func(x point) bool { return (x.unit > 0) == pipeline }); i >= 0 {
			climb(from[i], eval)
		}
	}
}

// climb changes one value at a time to one of the next that are tried, as long as that helps.
func climb(at point, eval func(point) float64) {
	for improved := true; improved; {
		improved = false
		for _, value := range []func(*point) *int{
			func(x *point) *int { return &x.lanes },
			func(x *point) *int { return &x.instances },
			func(x *point) *int { return &x.unit },
		} {
			for _, d := range []int{1, 2, -1} {
				next := at
				*value(&next) += d
				if eval(next) < eval(at) {
					at, improved = next, true
					break
				}
			}
		}
	}
}
