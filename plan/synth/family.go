package synth

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/fabric"
	"github.com/goccl/goccl/plan/simulate"
)

// family is one form of a collective: trees from roots to all ranks, trees whose reverse leads to the roots, or the
// paths of an all-to-all.
type family struct {
	out, back *forest
	paths     *exchange
}

// families packs trees over meshes.
func families(o Options, roots []int) (list []family, bound *Bound, err error) {
	g := o.Graph
	if o.Collective == plan.AllToAll {
		x, err := newExchange(g)
		if err != nil {
			return nil, nil, err
		}
		return []family{{paths: x}}, &Bound{GBps: x.rate, Pairs: true}, nil
	}
	var out, back *direction
	if o.Collective != plan.ReduceScatter {
		if out, err = newDirection(g, roots); err != nil {
			return nil, nil, err
		}
		bound = out.bound
	}
	if o.Collective == plan.ReduceScatter || o.Collective == plan.AllReduce {
		if back, err = newDirection(g.Reverse(), roots); err != nil {
			return nil, nil, err
		}
		if out == nil {
			bound = back.bound
		} else {
			back.scaled = back.test.fit(out.scaled.k, back.bound.GBps)
			bound = ofAllReduce(g)
		}
	}
	var f family
	if out != nil {
		if f.out, err = out.forest(); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case back != nil && out != nil && back.mirrors(out):
		f.back = f.out
	case back != nil:
		if f.back, err = back.forest(); err != nil {
			return nil, nil, err
		}
	}
	return []family{f}, bound, nil
}

// shallowFamily returns trees for little data, in the directions that another family has.
func shallowFamily(o Options, m *simulate.Machine, roots []int, like family) (f family) {
	if like.out != nil {
		f.out = newShallow(o, m, roots)
	}
	switch {
	case like.back != nil && like.back == like.out:
		f.back = f.out
	case like.back != nil:
		o.Graph = o.Graph.Reverse()
		f.back = newShallow(o, m, roots)
	}
	return f
}

// direction is a graph whose trees are looked for.
type direction struct {
	test   *rateTest
	bound  *Bound
	scaled scaled
}

func newDirection(g *fabric.Graph, roots []int) (*direction, error) {
	b, err := Optimal(g, roots)
	if err != nil {
		return nil, err
	}
	t := newRateTest(g, roots)
	return &direction{test: t, bound: b, scaled: t.scale(b)}, nil
}

// forest packs the trees. Where links differ by direction, switches cannot always be removed without loss of rate; then
// the trees get more time.
func (d *direction) forest() (*forest, error) {
	m := newMesh(d.test.g, d.test.roots, d.scaled)
	for m.split(); !m.fits(); m.split() {
		d.scaled = d.test.slower(d.scaled)
		m = newMesh(d.test.g, d.test.roots, d.scaled)
	}
	trees, err := m.pack()
	if err != nil {
		return nil, err
	}
	return newForest(d.scaled.k, d.test.roots, trees), nil
}

// mirrors reports whether every link has the same room both ways, so that the same trees serve both directions.
func (d *direction) mirrors(e *direction) bool {
	return reflect.DeepEqual(newMesh(d.test.g, d.test.roots, d.scaled).room,
		newMesh(e.test.g, e.test.roots, e.scaled).room)
}

// first returns the trees in the direction that the collective has.
func (f family) first() *forest {
	return cmp.Or(f.out, f.back)
}

// trees returns how many trees each root has, or into how many chunks a pair's data is divided.
func (f family) trees() int {
	if f.paths != nil {
		return f.paths.k
	}
	return f.first().k
}

// size returns into how many chunks the message is divided, how many lanes have work, and how many transfers there are.
func (f family) size(ranks int) (chunks, lanes, transfers int) {
	if f.paths != nil {
		return ranks * ranks * f.paths.k, ranks - 1, ranks * ranks * f.paths.k
	}
	t := f.first()
	return t.k * len(t.roots), t.most(), ranks * len(t.trees)
}

// fits reports whether a shape is worth a simulation: its thread blocks exist, and its pipelines have two slices or
// more, but not so many that they take minutes to simulate.
func (f family) fits(o Options, s shape) bool {
	blocks := s.lanes * s.instances
	if o.Collective == plan.AllReduce && s.unit > 0 {
		blocks *= 2
	}
	chunks, lanes, transfers := f.size(o.Graph.Ranks())
	if f.paths != nil {
		chunks /= o.Graph.Ranks() // a message is one rank's buffer
	}
	chunk := uint64(o.Size) / uint64(chunks*s.instances)
	most := uint64(1<<17) / uint64(transfers*s.instances)
	return blocks <= maxBlocks && s.lanes <= lanes && (s.unit == 0 || s.unit*2 <= chunk && chunk/s.unit <= max(4, most))
}

func (f family) String() string {
	if f.paths != nil {
		return fmt.Sprintf("%d hops", f.paths.depth)
	}
	depth := f.first().depth
	if f.out != nil && f.back != nil {
		depth += f.back.depth
	}
	return fmt.Sprintf("depth %d", depth)
}

// build writes the collective in one shape.
func (f family) build(o Options, s shape) (*plan.Plan, error) {
	g, n := o.Graph, o.Graph.Ranks()
	switch o.Collective {
	case plan.AllGather:
		return f.out.gather(g, o.Name, dsl.AllGather(n, f.out.k, o.InPlace), s)
	case plan.Broadcast:
		return f.out.gather(g, o.Name, dsl.Broadcast(n, f.out.k, o.Root, o.InPlace), s)
	case plan.ReduceScatter:
		return f.back.reduceScatter(g, o.Name, o.InPlace, s)
	case plan.AllToAll:
		return f.paths.build(o, s)
	case plan.AllReduce:
		return f.out.allReduce(f.back, g, o.Name, o.InPlace, s)
	}
	return nil, fmt.Errorf("synth: %s: no search for this collective", o.Collective)
}
