package verify

import (
	"fmt"

	"github.com/goccl/goccl/plan"
)

// event is an executed op: a thread block, a position in its unrolled program, a launch. With block -1 it is the caller
// of rank pc.
type event struct {
	block, pc int32
	launch    int32
}

// unit is an instruction of an unrolled program: an op outside of a pipeline, or in one of its iterations.
type unit struct {
	step  *plan.Step
	loop  *plan.Step // the pipeline, or nil
	iter  int32      // of it
	parts [][]sub    // by move
}

// blockState is the state of a running thread block.
type blockState struct {
	id, rank int
	programs [][]unit // by launch
	program  []unit   // of this launch
	pc       int
	launch   int
	done     bool // all launches have ended
	ended    bool // this launch has ended; waits for the other thread blocks of the rank
	meeting  bool // has arrived at the barrier at pc
	arrived  bool // was released from it

	phase   uint32           // number of completed phases
	begins  []event          // first event of each phase
	base    *clock           // clock of all threads at the beginning of the phase; its own component may lag
	threads map[int][]*clock // clocks that single threads have received since
	packets []*clock         // clocks that packets have carried since
	pending []movements      // proofs of the packets consumed in this phase
	shared  *clock           // base with its own component up to date, computed when first needed
	grant   int              // position of the iteration that the gate has let begin, or -1
	entry   bool             // only relaxed signals and waits so far in this launch
}

// unroll appends step to the program, pipelines iteration by iteration, and numbers the port channels that it pushes
// to.
func (v *verifier) unroll(b *blockState, step *plan.Step, launch int) error {
	if !step.Does.Has(plan.Loops) {
		b.program = append(b.program, v.unit(b, step, nil, -1, launch))
		return nil
	}
	n := v.shape.at(launch).n[v.shape.loops.class[step.Op]]
	if n*int64(len(step.Body)) > v.opts.MaxSteps {
		return fmt.Errorf("plan %s: %w: %d iterations of %d ops", v.p.Name, ErrTooLarge, n, len(step.Body))
	}
	for i := range int(n) {
		for j := range step.Body {
			b.program = append(b.program, v.unit(b, &step.Body[j], step, i, launch))
		}
	}
	return nil
}

// unit resolves a step: in iteration iter of a pipeline, or outside of pipelines with iter -1.
func (v *verifier) unit(b *blockState, step, loop *plan.Step, iter, launch int) unit {
	u := unit{step: step, loop: loop, iter: int32(iter)}
	for i := range step.Moves {
		m := &step.Moves[i]
		u.parts = append(u.parts, v.partOf(m, step.Op.Slice, iter, launch))
		if m.Entry < 0 {
			continue
		}
		link := v.link(b.rank, plan.PortChannel, step.Channels[m.Entry])
		at := [2]int{b.id, link}
		if _, ok := v.portOf[at]; !ok {
			v.portOf[at] = len(v.ports)
			v.linkPorts[link] = append(v.linkPorts[link], len(v.ports))
			v.ports = append(v.ports, port{block: b.id, link: link})
			for g := 1; g < v.quotient.order(); g++ { // the images of b's
				v.ports = append(v.ports, port{block: v.quotient.block(int32(g), b.id), link: -1})
			}
		}
	}
	return u
}

// partOf returns the atoms that a move accesses in each of its operands.
func (v *verifier) partOf(m *plan.Move, slice plan.Slice, iter, launch int) []sub {
	key := partKey{size: m.Src[0].Size, slice: slice, iter: iter, until: 1}
	if key.slice.Count <= 1 {
		key.slice = plan.Slice{}
	}
	if v.shape.present != nil {
		key.launch = launch
	}
	l := v.shape.loops
	if iter >= 0 || !l.used {
		return v.shape.part(key)
	}
	var subs []sub
	alike := true
	until := func(j int) int64 { return v.shape.windows(l.of(v.p, v.resolved, &m.Src[0], j), launch) }
	for j := range key.size {
		key.until = until(j)
		alike = alike && key.until == until(0)
	}
	if alike {
		return v.shape.part(key)
	}
	for j := range key.size {
		key.until = until(j)
		for _, s := range v.shape.part(key) {
			if int(s.chunk) == j {
				subs = append(subs, s)
			}
		}
	}
	return subs
}
