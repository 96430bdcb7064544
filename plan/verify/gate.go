package verify

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// schedule is which thread blocks may run. A block that has not ended its launch is in the queue once, or waits in one
// place: at a counter, a barrier, a packet, or the gate.
type schedule struct {
	queue    []int
	queued   []bool // by thread block
	launched []int  // by rank: launches begun
	running  []int  // by rank: thread blocks that have not ended the launch
	gate     gate
	starts   []digest // state when all ranks begin launch 1, 2, …, unless the plan uses packets
}

// gate orders the execution of a plan with pipelines, so that their iterations can be compared. The order makes no
// difference to the outcome (see counter).
//
// A thread block stops before each iteration. When nothing else can run, a tick lets the blocks that wait there run one
// iteration each, if they are in the earliest launch and in the chosen class of pipelines. A rank begins its next
// launch when no block waits for a tick.
type gate struct {
	waiting []int // thread blocks that stopped before an iteration
	turns   []turn
	ticks   []tick
}

// turn is a rank that has ended a launch, and the clock of its end.
type turn struct {
	rank int
	k    *clock
}

// tick is the state when some blocks are about to run one iteration.
type tick struct {
	launch, class int
	blocks        []stopped // that run, by number
	seen          bool      // the following are set
	core          digest    // of all state except the windows
	windows       []digest
	stuck         bool // another block waits in the middle of a pipeline of the class
}

// stopped is a block before iteration iter of a pipeline.
type stopped struct {
	block int
	loop  *plan.Step
	iter  int32
}

// stops reports whether b stops before u, the first op of an iteration.
func (g *gate) stops(b *blockState, u *unit) bool {
	if u.loop == nil || u.step != &u.loop.Body[0] {
		return false
	}
	if b.grant == b.pc {
		return false
	}
	g.waiting = append(g.waiting, b.id)
	return true
}

// tick lets blocks run on when all have stopped. It reports whether there were any.
func (v *verifier) tick() (bool, error) {
	g := &v.gate
	if len(g.waiting) == 0 {
		turns := g.turns
		g.turns = nil
		for _, t := range turns {
			if err := v.turn(t.rank, t.k); err != nil {
				return false, err
			}
		}
		v.between()
		return len(turns) > 0, nil
	}
	next := tick{launch: -1}
	class := func(id int) int { return v.shape.loops.class[v.blocks[id].program[v.blocks[id].pc].loop.Op] }
	for _, id := range g.waiting {
		b := v.blocks[id]
		if c := class(id); next.launch < 0 || b.launch < next.launch || b.launch == next.launch && c < next.class {
			next.launch, next.class = b.launch, c
		}
	}
	kept := g.waiting[:0]
	for _, id := range g.waiting {
		b := v.blocks[id]
		if b.launch != next.launch || class(id) != next.class {
			kept = append(kept, id)
			continue
		}
		u := &b.program[b.pc]
		next.blocks = append(next.blocks, stopped{id, u.loop, u.iter})
		b.grant = b.pc
		v.ready(id)
	}
	g.waiting = kept
	slices.SortFunc(next.blocks, func(a, b stopped) int { return a.block - b.block })
	if v.shape.at(next.launch).open[next.class] {
		v.snapshot(&next)
	}
	g.ticks = append(g.ticks, next)
	return true, nil
}
