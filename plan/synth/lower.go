package synth

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/fabric"
)

// shape is one form of a program for the same trees.
type shape struct {
	lanes     int    // of trees: lanes share no thread blocks or channels
	instances int    // copies of every lane, each with a share of each chunk
	unit      uint64 // bytes of a chunk that move at a time; 0: whole chunks
}

func (s shape) String() string {
	if s.unit == 0 {
		return fmt.Sprintf("%d lanes × %d", s.lanes, s.instances)
	}
	return fmt.Sprintf("%d lanes × %d, %d KiB at a time", s.lanes, s.instances, s.unit>>10)
}

// program is a collective that is being written.
//
// A lane walks through levels. At each level a rank waits for the data that its parents sent at the level before, and
// then forwards the data to its children: first all stores, then one signal per child. So all ranks agree on the order
// of signals on every channel, and every wait is for a lower level: the lane cannot deadlock.
type program struct {
	*dsl.CollectiveProgram
	g      *fabric.Graph
	forest *forest
	shape  shape
	chunks [][2]int // of each tree, within its root's k
}

// forest is a set of trees, k per root.
type forest struct {
	k     int
	roots []int
	trees []tree
	depth int
}

func newForest(k int, roots []int, trees []tree) *forest {
	f := &forest{k: k, roots: roots, trees: trees}
	for _, t := range trees {
		for _, d := range t.depth {
			f.depth = max(f.depth, d)
		}
	}
	return f
}

// lanesOf divides the trees among lanes: by root, so that both halves of an all-reduce agree, or by tree if there is
// one root.
func (p *program) lanesOf() [][]int {
	out := make([][]int, p.shape.lanes)
	for i := range p.forest.trees {
		l := i
		if len(p.forest.roots) > 1 {
			l = p.forest.trees[i].root
		}
		out[l%len(out)] = append(out[l%len(out)], i)
	}
	return out
}

// most returns how many lanes have a tree.
func (f *forest) most() int {
	if len(f.roots) > 1 {
		return len(f.roots)
	}
	return len(f.trees)
}

// pair names a directed pair of ranks.
type pair struct{ from, to int }

// transfer is a move of chunks between two ranks at a level.
type transfer struct {
	to       int
	dst, src dsl.Chunk
}

// step is what one thread block of a rank does at one level.
type step struct {
	from    []int          // ranks to wait for, each once
	acquire *dsl.Semaphore // to wait for another block of the rank
	local   []localWork    // reductions and copies, before anything is sent
	sends   []transfer
	release *dsl.Semaphore // after that, for another block
}

type localWork func(b dsl.Option)

// lane is the work of one thread block on every rank, by rank and level.
type lane struct {
	block int
	steps [][]step
}

// send adds a move at a level. The receiver waits at the next level.
func (l *lane) send(level, from int, t transfer) {
	s := &l.steps[from][level]
	s.sends = append(s.sends, t)
	d := &l.steps[t.to][level+1]
	if !slices.Contains(d.from, from) {
		d.from = append(d.from, from)
	}
}

// lines opens the channels of a lane, both ways for each pair that exchanges data.
func (p *program) lines(l *lane) map[pair]dsl.Link {
	out := map[pair]dsl.Link{}
	open := func(from, to int) {
		if _, ok := out[pair{from, to}]; !ok {
			out[pair{from, to}] = p.Link(to, from, p.g.SameHost(from, to))
		}
	}
	for r, steps := range l.steps {
		for i := range steps {
			for _, t := range steps[i].sends {
				open(r, t.to)
				open(t.to, r)
			}
		}
	}
	return out
}

// peersOf returns the ranks that r receives from and sends to in the lane.
func (l *lane) peersOf(r int) (from, to []int) {
	add := func(list *[]int, x int) {
		if !slices.Contains(*list, x) {
			*list = append(*list, x)
		}
	}
	for i := range l.steps[r] {
		for _, x := range l.steps[r][i].from {
			add(&from, x)
		}
		for _, t := range l.steps[r][i].sends {
			add(&to, t.to)
		}
	}
	return from, to
}

// write emits lanes: the handshake, the levels (in a pipeline if the shape has a unit), and the end of transfers.
func (p *program) write(lanes []*lane) {
	lines := make([]map[pair]dsl.Link, len(lanes))
	for i, l := range lanes {
		lines[i] = p.lines(l)
		for r := range l.steps {
			from, to := l.peersOf(r)
			for _, x := range from {
				lines[i][pair{r, x}].Ready(dsl.TB(l.block))
			}
			for _, x := range to {
				lines[i][pair{r, x}].AwaitReady(dsl.TB(l.block))
			}
		}
	}
	if p.shape.unit > 0 {
		p.BeginLoop(p.shape.unit, 1)
	}
	for i, l := range lanes {
		for r := range l.steps {
			for k := range l.steps[r] {
				p.step(r, &l.steps[r][k], lines[i], dsl.TB(l.block))
			}
		}
	}
	if p.shape.unit > 0 {
		p.EndLoop()
	}
	for i, l := range lanes {
		for r := range l.steps {
			_, to := l.peersOf(r)
			for _, x := range to {
				lines[i][pair{r, x}].Drain(dsl.TB(l.block))
			}
		}
	}
}

func (p *program) step(r int, s *step, lines map[pair]dsl.Link, b dsl.Option) {
	for _, x := range s.from {
		lines[pair{r, x}].Wait(b)
	}
	if s.acquire != nil {
		s.acquire.Acquire(b)
	}
	for _, w := range s.local {
		w(b)
	}
	var signals []int
	for i, t := range s.sends {
		l := lines[pair{r, t.to}]
		memory := l.Memory() != nil
		if memory || slices.ContainsFunc(s.sends[i+1:], func(later transfer) bool { return later.to == t.to }) {
			l.Put(t.dst, t.src, b)
		} else {
			l.Send(t.dst, t.src, b)
		}
		if memory && !slices.Contains(signals, t.to) {
			signals = append(signals, t.to)
		}
	}
	for _, q := range signals {
		lines[pair{r, q}].Signal(b)
	}
	if s.release != nil {
		s.release.Release(b)
	}
}

// begin starts a program for the forest's collective.
func (f *forest) begin(g *fabric.Graph, name string, c dsl.Collective, s shape) *program {
	p := &program{g: g, forest: f, shape: s}
	p.CollectiveProgram = dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: name, Collective: c, Instances: s.instances,
		RanksPerNode: perHost(g), InPlace: c.InPlace})
	p.chunks = f.chunks()
	return p
}

// chunks gives each tree its chunks of its root's k.
func (f *forest) chunks() (out [][2]int) {
	next := map[int]int{}
	for i := range f.trees {
		t := &f.trees[i]
		out = append(out, [2]int{next[t.root], next[t.root] + t.count})
		next[t.root] += t.count
	}
	return out
}

func perHost(g *fabric.Graph) int {
	if h := g.Hosts(); h > 0 {
		return g.Ranks() / h
	}
	return g.Ranks()
}

// runs divides the chunks of tree i into the ranges that move as one: all of them, or in a pipeline single chunks.
func (p *program) runs(i int) (out [][2]int) {
	c := p.chunks[i]
	if p.shape.unit == 0 {
		return [][2]int{c}
	}
	for k := c[0]; k < c[1]; k++ {
		out = append(out, [2]int{k, k + 1})
	}
	return out
}
