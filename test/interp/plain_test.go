package interp_test

import (
	"fmt"

	"github.com/goccl/goccl/plan"
)

// plain is the memory model of docs/verifier.md in the plainest form, for messages of given sizes: a graph of moments,
// in which an edge makes all knowledge at its first moment known at its second. Each movement has a moment when it has
// read its sources, from which its packets tell. It reads the table of ops and shares no code with the verifier. An
// access is over at a moment that a path reaches from its end, and visible there if no edge of the path is a packet's.
// It does not know port channels, and counters and packets with several writers (errNotPlain).
type plain struct {
	p      *plan.Plan
	sizes  []*plan.Layout
	edges  [][]edge // by moment: what leads there
	blocks []*plainBlock
	turn   []int // by rank: the moment at which the running launch began
	launch []int // by rank
	counts map[string]*plainCounter
	meets  map[[2]int][]*plainBlock
	cells  map[where]*plainCell
	old    map[[3]int][]*deed // by rank, plane and half of scratch
	insts  int
	op     string // of all reductions in results
	seen   []int  // by moment: the last search that came there
	search int
}

type edge struct {
	from   int
	packet bool
}

// where is a unit of memory.
type where struct{ rank, plane, unit int }

// deed is an access: from one moment, over at another.
type deed struct {
	from, over    int
	inst          int
	write, packet bool
	launch        int
	read          bool // a packet that was read
	at            string
}

type plainCell struct {
	deeds  []*deed
	value  string
	input  int // inst by which the caller wrote input here
	flag   int // launch, from 1
	packet int // the moment that it tells of
	writer *deed
}

type plainCounter struct {
	moments []int
	init    int
	taken   int
	from    *plainBlock // that adds
	block   *plainBlock // that takes, in its phase from begin on by one thread
	begin   int
	thread  int
}

type plainBlock struct {
	rank, index, pc int
	steps           []plainStep
	begin, end      int         // moments of the phase
	threads         map[int]int // moments of single threads
	arrived, done   bool
	opening         bool
}

type plainStep struct {
	*plan.Step
	unit int64
	iter int
}

var errNotPlain = fmt.Errorf("not for the plain checker")

func (m *plain) moment(from ...int) int {
	var list []edge
	for _, f := range from {
		list = append(list, edge{f, false})
	}
	m.edges = append(m.edges, list)
	return len(m.edges) - 1
}

// reaches reports whether a path leads from a to b, with or without packets.
func (m *plain) reaches(a, b int, packets bool) bool {
	m.search++
	m.seen = append(m.seen, make([]int, len(m.edges)-len(m.seen))...)
	todo := []int{b}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if at == a {
			return true
		}
		for _, e := range m.edges[at] {
			if (packets || !e.packet) && m.seen[e.from] != m.search {
				m.seen[e.from] = m.search
				todo = append(todo, e.from)
			}
		}
	}
	return false
}

// plainCheck returns the first fault of p for launches of these sizes, or nil.
func plainCheck(p *plan.Plan, sizes []uint64) error {
	if p.MinSize > 0 {
		return errNotPlain // launches may be of one size
	}
	m := &plain{p: p, counts: map[string]*plainCounter{}, meets: map[[2]int][]*plainBlock{}, cells: map[where]*plainCell{},
		old: map[[3]int][]*deed{}}
	for _, s := range sizes {
		l, err := p.NewLayout(s)
		if err != nil {
			return err
		}
		m.sizes = append(m.sizes, l)
	}
	for r := range p.GPUs {
		for b := range p.GPUs[r].ThreadBlocks {
			m.blocks = append(m.blocks, &plainBlock{rank: r, index: b, done: true})
		}
		m.turn, m.launch = append(m.turn, m.moment()), append(m.launch, -1)
	}
	for {
		moved := false
		for r := range p.GPUs {
			on, err := m.caller(r)
			if err != nil {
				return err
			}
			moved = moved || on
		}
		for _, b := range m.blocks {
			for !b.done {
				on, err := m.step(b)
				if err != nil {
					return err
				}
				if !on {
					break
				}
				moved = true
			}
		}
		if moved {
			continue
		}
		for _, l := range m.launch {
			if l < len(sizes) {
				return fmt.Errorf("deadlock")
			}
		}
		for name, c := range m.counts {
			if c.taken != len(c.moments) {
				return fmt.Errorf("%s is left with another value", name)
			}
		}
		return nil
	}
}

// caller ends a launch of a rank and begins the next.
func (m *plain) caller(r int) (bool, error) {
	ends := []int{m.turn[r]}
	for _, b := range m.blocks {
		if b.rank == r {
			if !b.done {
				return false, nil
			}
			if m.launch[r] >= 0 {
				ends = append(ends, b.begin)
			}
		}
	}
	if m.launch[r] == len(m.sizes) {
		return false, nil
	}
	now := m.moment(ends...)
	if m.launch[r] >= 0 {
		if err := m.result(r); err != nil {
			return false, err
		}
	}
	m.launch[r]++
	after := m.moment(now)
	l := m.sizes[min(m.launch[r], len(m.sizes)-1)]
	m.insts++
	for pl, kind := range [2]plan.BufferType{plan.Input, plan.Output} {
		for k := range int(l.Size(r, kind) / l.Alignment) {
			c := m.cell(m.user(l, r, pl, k))
			d := &deed{from: now, over: after, inst: m.insts, write: true, at: fmt.Sprintf("the caller of rank %d", r)}
			if err := m.access(c, d); err != nil {
				return false, err
			}
			c.deeds = []*deed{d}
			if pl == 0 {
				c.value, c.input = fmt.Sprintf("%d.%d.%d", m.launch[r], r, k), m.insts
			} else if c.input != m.insts { // not the same memory
				c.value = ""
			}
		}
	}
	m.turn[r] = after
	if m.launch[r] == len(m.sizes) {
		return true, nil
	}
	for _, b := range m.blocks {
		if b.rank == r {
			b.steps, b.pc, b.done, b.opening = nil, 0, false, true
			m.unroll(b, m.p.Program(r, b.index), l)
			b.begin, b.end, b.threads = m.moment(after), m.moment(), map[int]int{}
		}
	}
	return true, nil
}

func (m *plain) unroll(b *plainBlock, steps []plan.Step, l *plan.Layout) {
	for i := range steps {
		if !steps[i].Does.Has(plan.Loops) {
			b.steps = append(b.steps, plainStep{Step: &steps[i]})
			continue
		}
		for n := range int(l.Iterations(steps[i].Op)) {
			for j := range steps[i].Body {
				b.steps = append(b.steps, plainStep{&steps[i].Body[j], steps[i].Op.UnitSize, n})
			}
		}
	}
}

// user gives a unit of a caller's buffer, the same for both where they are one memory.
func (m *plain) user(l *plan.Layout, r, plane, unit int) where {
	per := int(l.Chunk / l.Alignment)
	if m.p.InPlace {
		pl := m.p.Memory(plan.Place{Rank: r, Plane: plan.Plane(plane), Index: unit / per, Size: 1})
		return where{r, int(pl.Plane), pl.Index*per + unit%per}
	}
	return where{r, plane, unit}
}

func (m *plain) cell(at where) *plainCell {
	c := m.cells[at]
	if c == nil {
		c = &plainCell{}
		m.cells[at] = c
	}
	return c
}

// access checks a deed against those before it on its cell.
func (m *plain) access(c *plainCell, d *deed) error {
	for _, o := range c.deeds {
		if o.inst == d.inst || !o.write && !d.write {
			continue
		}
		if !m.reaches(o.over, d.from, !o.write) {
			return fmt.Errorf("data race: %s, and %s", o.at, d.at)
		}
	}
	c.deeds = append(c.deeds, d)
	return nil
}

// meet ends the phase of b.
func (m *plain) meet(b *plainBlock) {
	m.edges[b.end] = append(m.edges[b.end], edge{b.begin, false})
	for _, at := range b.threads {
		m.edges[b.end] = append(m.edges[b.end], edge{at, false})
	}
	b.begin, b.end, b.threads = b.end, m.moment(), map[int]int{}
}
