package interp

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
)

// ExploreOptions bound Explore.
type ExploreOptions struct {
	Sizes []uint64 // message size of each launch
	Lanes int      // threads per block; 0: 2
	Runs  int      // at most; 0: 4096
}

// Exploration is what Explore has seen.
type Exploration struct {
	Runs  int // orders that differ in the outcome of a race
	Steps int // in the first of them
}

// Errors of Explore besides those of Run.
var (
	ErrUnexplored = errors.New("more orders than the limit")
	ErrRace       = errors.New("data race")
)

// Explore runs p under every interleaving and compares each outcome with the collective's definition. It returns the first fault: a wrong
// result, a *DeadlockError, or ErrRace when two steps that nothing orders use the same bytes and one writes them. When it returns nil there is
// no fault in any order of steps, for these sizes and lanes.
//
// Orders that differ only in neighbours that do not touch the same thing have the same outcome, and one of them is run. (Dynamic partial order
// reduction; the sets of first steps are source sets.)
//
//  1. run to the end; whenever a step conflicts with an earlier one that it could have come before, note at the earlier one's place an actor
//     whose step begins the other order
//  2. go back to the last place with an actor noted and not yet tried, and run from there with that actor first
//  3. end when no place is left
func Explore(p *plan.Plan, o ExploreOptions) (*Exploration, error) {
	cfg, err := checked(p, o.Sizes, elementType(p.Alignment), datatype.Sum)
	if err != nil {
		return nil, err
	}
	cfg.Lanes = o.Lanes
	if cfg.Lanes == 0 {
		cfg.Lanes = 2
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

// choice is a place in the order of steps, with the actor that goes first there.
type choice struct {
	actor int
	tried map[int]bool
	todo  map[int]bool
}

// back gives up the end of the path up to a place where another actor is to be tried.
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

// run follows the path and goes on from its end until all is over.
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
		if o.data() { // the run ends with it
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
		return on, err
	}
	for i := range e.path {
		c := &e.path[i]
		on, err := step(c.actor)
		if err != nil {
			return err
		}
		if !on { // it cannot go first here; whoever can might lead there
			if c.todo == nil {
				c.todo = map[int]bool{}
			}
			for a := range actors {
				c.todo[a] = true
			}
			return nil
		}
		if racing != nil {
			return racing
		}
	}
	last := 0
	for {
		ran := -1
		for k := range actors {
			a := (last + k) % len(actors)
			e.path = append(e.path, choice{actor: a})
			on, err := step(a)
			if err != nil {
				return err
			}
			if racing != nil {
				return racing
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

// turn notes at the place of step i an actor that begins an order in which the step under way comes before i: one whose step, of those since i
// that do not depend on i, depends on no other of them.
func (e *explorer) turn(t *trace, i, actor int) {
	var free []int // steps since i that do not come behind it
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

// RaceError is two steps that nothing orders, over the same bytes. errors.Is(err, ErrRace) holds.
type RaceError struct {
	Plan          string
	Rank          int // whose memory it is
	First, Second fmt.Stringer
}

func (e *RaceError) Error() string {
	return fmt.Sprintf("interp: plan %s: data race in memory of rank %d: %s, and %s", e.Plan, e.Rank, e.First, e.Second)
}

func (e *RaceError) Unwrap() error { return ErrRace }

// place is where an actor was when it took a step, to be put into words when needed.
type place struct {
	a      actor
	in     *instruction
	launch int
}

func what(a actor) place {
	p := place{a: a}
	switch a := a.(type) {
	case *lane:
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
	case *lane:
		return fmt.Sprintf("launch %d, %s (%s), lane %d", p.launch+1, p.in.step.Pos, p.in.step.Op.Name, a.index)
	case *portQueue:
		return fmt.Sprintf("a transfer over port channel %d of rank %d", a.m.links[a.link].ID, a.m.links[a.link].Rank)
	case *rankState:
		return fmt.Sprintf("the caller of rank %d after launch %d", a.rank, p.launch+1)
	}
	return ""
}
