package interp

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
)

// ExploreOptions configures Explore.
type ExploreOptions struct {
	Sizes   []uint64 // message size of each launch
	Threads int      // threads per block; 0: 2
	Runs    int      // maximum; 0: 4096
}

// Exploration describes what Explore has run.
type Exploration struct {
	Runs  int // orders that differ in the outcome of a race
	Steps int // in the first run
}

// Errors that Explore returns in addition to the errors of Run.
var (
	ErrUnexplored = errors.New("more orders than the limit")
	ErrRace       = errors.New("data race")
)

// Explore runs p under every interleaving and compares each outcome with the collective's definition. It returns the
// first error: a wrong result, a *DeadlockError, or ErrRace when two unordered steps use the same bytes and one writes
// them. When it returns nil, no order of steps fails for these sizes and threads.
//
// Orders that differ only in the order of adjacent steps that share no object have the same outcome, so only one of
// them is run. (Dynamic partial order reduction; the sets of first steps are source sets.)
//
//  1. run to the end; when a step conflicts with an earlier one that it could have preceded, record at the earlier
//     step's position an actor whose step begins the other order
//  2. go back to the last position with a recorded actor that was not tried yet, and run from there with that actor
//     first
//  3. end when there is no such position
func Explore(p *plan.Plan, o ExploreOptions) (*Exploration, error) {
	cfg, err := checked(p, o.Sizes, elementType(p.Alignment), datatype.Sum)
	if err != nil {
		return nil, err
	}
	cfg.Threads = o.Threads
	if cfg.Threads == 0 {
		cfg.Threads = 2
	}
	limit := o.Runs
	if limit == 0 {
		limit = 4096
	}
	e := &explorer{p: p, cfg: cfg}
	out := &Exploration{}
	for {
		if out.Runs == limit {
			return out, fmt.Errorf("interp: plan %s: %w of %d", p.Name, ErrUnexplored, limit)
		}
		out.Runs++
		if err := e.run(); err != nil {
			return out, err
		}
		if out.Runs == 1 {
			out.Steps = len(e.path)
		}
		if !e.back() {
			return out, nil
		}
	}
}

type explorer struct {
	p    *plan.Plan
	cfg  Config
	path []choice
}

// choice is a position in the order of steps, with the actor that steps there.
type choice struct {
	actor int
	tried map[int]bool
	todo  map[int]bool
}

// back drops the end of the path, up to a position where another actor must be tried.
func (e *explorer) back() bool {
	for len(e.path) > 0 {
		c := &e.path[len(e.path)-1]
		if c.tried == nil {
			c.tried = map[int]bool{}
		}
		c.tried[c.actor] = true
		next := -1
		for a := range c.todo {
			if !c.tried[a] && (next < 0 || a < next) {
				next = a
			}
		}
		if next >= 0 {
			c.actor = next
			return true
		}
		e.path = e.path[:len(e.path)-1]
	}
	return false
}

// run follows the path and continues from its end until all actors have finished.
func (e *explorer) run() error {
	m, err := newMachine(e.p, e.cfg)
	if err != nil {
		return err
	}
	actors := m.actors()
	t := newTrace(m, len(actors))
	m.trace = t
	var racing *RaceError
	t.race = func(earlier int, o object) {
		if o.data() { // a data race ends the run
			if racing == nil {
				racing = &RaceError{Plan: e.p.Name, Rank: o.a, First: t.steps[earlier].what, Second: t.what}
			}
			return
		}
		if len(t.steps) >= len(e.path)-1 {
			e.turn(t, earlier, t.actor)
		}
	}
	step := func(a int) (bool, error) {
		t.start(a, what(actors[a]))
		on, err := actors[a].step()
		if on {
			t.finish(a)
		}
		if err == nil && racing != nil {
			err = racing
		}
		return on, err
	}
	for i := range e.path {
		on, err := step(e.path[i].actor)
		if err != nil {
			return err
		}
		if !on { // the actor cannot step here; any other actor may have to step first
			e.path[i].add(len(actors))
			return nil
		}
	}
	return e.extend(m, len(actors), step)
}

// add records that each of n actors may have to step at this position.
func (c *choice) add(n int) {
	if c.todo == nil {
		c.todo = map[int]bool{}
	}
	for a := range n {
		c.todo[a] = true
	}
}

// extend steps actors in turn from the end of the path until all have finished.
func (e *explorer) extend(m *machine, actors int, step func(actor int) (bool, error)) error {
	last := 0
	for {
		ran := -1
		for k := range actors {
			a := (last + k) % actors
			e.path = append(e.path, choice{actor: a})
			on, err := step(a)
			if err != nil {
				return err
			}
			if on {
				ran = a
				break
			}
			e.path = e.path[:len(e.path)-1]
		}
		switch {
		case ran >= 0:
			last = ran
		case m.finished():
			return nil
		default:
			return m.deadlock()
		}
	}
}

// turn records, at the position of step i, an actor that begins an order in which the current step comes before i.
// Among the steps after i that do not depend on i, that actor's step must depend on no other.
func (e *explorer) turn(t *trace, i, actor int) {
	var free []int // steps after i that do not depend on it
	for k := i + 1; k < len(t.steps); k++ {
		if !t.knows(t.steps[k].clock, i) {
			free = append(free, k)
		}
	}
	var firsts []int
	initial := func(clock []int32, self int) bool {
		for _, k := range free {
			if k != self && (self < 0 || k < self) && t.knows(clock, k) {
				return false
			}
		}
		return true
	}
	for _, k := range free {
		if initial(t.steps[k].clock, k) {
			firsts = append(firsts, t.steps[k].actor)
		}
	}
	if initial(t.before, -1) {
		firsts = append(firsts, actor)
	}
	c := &e.path[i]
	for _, a := range firsts {
		if a == c.actor || c.todo[a] || c.tried[a] {
			return
		}
	}
	if c.todo == nil {
		c.todo = map[int]bool{}
	}
	c.todo[firsts[0]] = true
}

// RaceError describes two unordered steps that use the same bytes. errors.Is(err, ErrRace) holds.
type RaceError struct {
	Plan          string
	Rank          int // owner of the memory
	First, Second fmt.Stringer
}

func (e *RaceError) Error() string {
	return fmt.Sprintf("interp: plan %s: data race in memory of rank %d: %s, and %s", e.Plan, e.Rank, e.First, e.Second)
}

func (e *RaceError) Unwrap() error { return ErrRace }

// place is the position of an actor when it took a step. It is formatted only when needed.
type place struct {
	a      actor
	in     *instruction
	launch int
}

func what(a actor) place {
	p := place{a: a}
	switch a := a.(type) {
	case *thread:
		p.launch = a.b.r.launch
		if a.b.running() && a.pc < len(a.b.program) {
			p.in = &a.b.program[a.pc]
		}
	case *rankState:
		p.launch = a.launch
	}
	return p
}

func (p place) String() string {
	switch a := p.a.(type) {
	case *thread:
		return fmt.Sprintf("launch %d, %s (%s), thread %d", p.launch+1, p.in.step.Pos, p.in.step.Op.Name, a.index)
	case *portQueue:
		l := &a.m.links.All[a.link%len(a.m.links.All)]
		return fmt.Sprintf("a transfer over port channel %d of rank %d", l.ID, l.Rank)
	case *rankState:
		return fmt.Sprintf("the caller of rank %d after launch %d", a.rank, p.launch+1)
	}
	return ""
}
