package executor

import (
	"fmt"

	"github.com/goccl/goccl/plan"
)

// block is a thread block of a running launch. It executes its ops in order and completes each before the next, as the
// verifier does, so a plan that the verifier accepts cannot hang here.
type block struct {
	r     *run
	index int // in the plan
	prog  []instr
	pc    int
	done  bool

	// Progress within the op at pc, reset when the op begins.
	entry    int // entries of a wait or an acquire that are done; 1 for a barrier that the block has announced
	begun    bool
	move     int
	at       int64
	seenMove int
	seenSrc  int

	// Pipeline state; unit is 0 outside.
	iter, iters int
	unit        int64
}

func (b *block) reset(r *run, index int, prog []instr) {
	*b = block{r: r, index: index, prog: prog}
	b.done = len(b.prog) == 0
}

// next moves to the op at pc.
func (b *block) next(pc int) {
	b.pc, b.entry, b.begun, b.move, b.at, b.seenMove, b.seenSrc = pc, 0, false, 0, 0, 0, 0
	b.done = pc == len(b.prog)
}

// advance runs ops until one must wait or the quantum is used up. It reports whether there was any progress.
func (b *block) advance(w *worker) (moved bool, err error) {
	for !b.done {
		in := &b.prog[b.pc]
		over, on, err := b.step(in, w)
		if err != nil {
			return moved, err
		}
		moved = moved || on
		if !over {
			return moved, nil
		}
		if in.code != plan.CodeLoop && in.code != plan.CodeEndLoop {
			b.next(b.pc + 1)
		}
	}
	return moved, nil
}

// step tries to run the op. over: the op is complete; moved: there was progress.
func (b *block) step(in *instr, w *worker) (over, moved bool, err error) {
	h := b.r.h
	own := h.arenas[h.x.e.rank]
	switch in.code {
	case plan.CodeNop, plan.CodeFlush: // a transfer is over with its op, also to another host: see network
		return true, true, nil
	case plan.CodeLoop:
		if b.iter, b.iters = 0, int(b.r.layout.Iterations(in.op)); b.iters == 0 {
			b.next(in.to)
		} else {
			b.unit = in.op.UnitSize
			b.next(b.pc + 1)
		}
		return true, true, nil
	case plan.CodeEndLoop:
		if b.iter++; b.iter < b.iters {
			b.next(in.to)
		} else {
			b.unit = 0
			b.next(b.pc + 1)
		}
		return true, true, nil
	case plan.CodeSignal:
		b.signal(in)
		return true, true, nil
	case plan.CodeWait:
		for b.entry < len(in.links) && b.signalled(in) {
			h.waited[in.links[b.entry]]++
			b.entry++
			moved = true
		}
		return b.entry == len(in.links), moved, nil
	case plan.CodeAcquire:
		for b.entry < len(in.op.SemaphoreIDs) && b.acquire(in) {
			b.entry++
			moved = true
		}
		return b.entry == len(in.op.SemaphoreIDs), moved, nil
	case plan.CodeRelease:
		for _, id := range in.op.SemaphoreIDs {
			h.semaphores[id].Add(1)
		}
		if b.r.workers > 1 {
			own.door().Wake()
		}
		return true, true, nil
	case plan.CodeBarrier:
		if b.entry == 0 {
			b.entry, moved = 1, true
			h.met[b.index][in.op.BarrierID]++
			h.arrived[in.op.BarrierID].Add(1)
			if b.r.workers > 1 {
				own.door().Wake()
			}
		}
		return b.assembled(in), moved, nil
	}
	return b.transfer(in, w)
}

// transfer is step for an op that moves data. It begins when the peers have published their buffers and the packets
// have arrived.
func (b *block) transfer(in *instr, w *worker) (over, moved bool, err error) {
	if !b.begun {
		if !b.ready() {
			return false, false, nil
		}
		for _, p := range in.io {
			if err := b.r.resolve(p); err != nil {
				return false, false, err
			}
		}
		b.begun = true
	}
	over, moved, err = b.reach(in, w)
	if err != nil || !moved {
		return false, false, err
	}
	h := b.r.h
	for _, p := range in.wakes {
		h.arenas[p].door().Wake()
	}
	if b.r.workers > 1 {
		h.arenas[h.x.e.rank].door().Wake() // for packets that this rank sends to itself
	}
	if over && in.signal {
		b.signal(in)
	}
	return over, true, nil
}

// reach is data, except that nothing moves after a rank whose buffers the op touches has left. A mover raises its flag
// and then looks at the left words; a leaver sets its left word and then looks at the flags (hostEngine.quit). All are
// sequentially consistent, so one of the two sees the other.
func (b *block) reach(in *instr, w *worker) (over, moved bool, err error) {
	if len(in.io) > 0 {
		moving := b.r.h.arenas[b.r.h.x.e.rank].moving()
		moving.Add(1)
		defer moving.Add(^uint32(0)) // also when a buffer cannot be touched
		if b.lost(in) >= 0 {
			return false, false, nil // the launch waits for its abort, which knows the cause
		}
	}
	over, err = b.data(in, w)
	return over, true, err
}

// lost is a rank whose buffers the op touches and that has left, or -1.
func (b *block) lost(in *instr) int {
	for _, p := range in.io {
		if b.r.h.arenas[p].left().Load() != 0 {
			return p
		}
	}
	return -1
}

func (b *block) signal(in *instr) {
	h := b.r.h
	if in.remote {
		h.remote.signals(in)
	}
	for _, l := range in.links {
		if peer := h.x.program.peer[l]; !h.x.e.otherHost(peer) {
			h.arenas[peer].inbound(h.x.program.pair[l]).Add(1)
			h.arenas[peer].door().Wake()
		}
	}
}

func (b *block) signalled(in *instr) bool {
	h := b.r.h
	l := in.links[b.entry]
	return int64(h.arenas[h.x.e.rank].inbound(l).Load()-h.waited[l]) > 0
}

// acquire decrements a semaphore if it is positive. Several workers may use the same semaphore.
func (b *block) acquire(in *instr) bool {
	s := &b.r.h.semaphores[in.op.SemaphoreIDs[b.entry]]
	for {
		v := s.Load()
		if v <= 0 {
			return false
		}
		if s.CompareAndSwap(v, v-1) {
			return true
		}
	}
}

func (b *block) assembled(in *instr) bool {
	id := in.op.BarrierID
	return b.r.h.arrived[id].Load() >= b.r.h.met[b.index][id]*uint64(in.op.NumThreadBlocks)
}

// ready reports whether the op at pc can make progress.
func (b *block) ready() bool {
	in := &b.prog[b.pc]
	switch in.code {
	case plan.CodeWait:
		return b.signalled(in)
	case plan.CodeAcquire:
		return b.r.h.semaphores[in.op.SemaphoreIDs[b.entry]].Load() > 0
	case plan.CodeBarrier:
		return b.entry == 0 || b.assembled(in)
	case plan.CodeData:
		if b.lost(in) >= 0 {
			return false
		}
		if b.begun {
			return true
		}
		for _, p := range in.io {
			if !b.r.published(p) {
				return false
			}
		}
		return !in.waits || b.arrived(in)
	}
	return true
}

// waiting describes what the op at pc waits for, and from which peer (-1: none).
func (b *block) waiting() (peer int, where string) {
	in := &b.prog[b.pc]
	at := fmt.Sprintf("%v (%s)", in.pos, in.op.Name)
	if in.inner {
		at += fmt.Sprintf(", iteration %d", b.iter)
	}
	switch in.code {
	case plan.CodeWait:
		peer = b.r.h.x.program.peer[in.links[b.entry]]
		if in.op.ChannelType == plan.HookChannel {
			return -1, fmt.Sprintf("waiting for its caller at hook %d, %s", in.links[b.entry]-b.r.h.x.program.firstHook, at)
		}
		return peer, fmt.Sprintf("waiting for a signal of rank %d%s at %s", peer, b.r.h.x.e.across(peer), at)
	case plan.CodeAcquire:
		return -1, fmt.Sprintf("waiting for semaphore %d at %s", in.op.SemaphoreIDs[b.entry], at)
	case plan.CodeBarrier:
		return -1, fmt.Sprintf("waiting at barrier %d at %s", in.op.BarrierID, at)
	}
	if p := b.lost(in); p >= 0 {
		return p, fmt.Sprintf("rank %d has left, at %s", p, at)
	}
	for _, p := range in.io {
		if !b.r.published(p) {
			return p, fmt.Sprintf("waiting for the launch of rank %d at %s", p, at)
		}
	}
	if b.seenMove < len(in.moves) && b.seenSrc < len(in.moves[b.seenMove].Src) {
		pl := in.moves[b.seenMove].Src[b.seenSrc]
		peer = writer(b.r.h.x.plan, pl)
		return peer, fmt.Sprintf("waiting for packets of rank %d%s in scratch chunk %d at %s", peer,
			b.r.h.x.e.across(peer), pl.Index, at)
	}
	return -1, "at " + at
}

// writer returns a rank that sends packets to pl, or -1. It prefers a rank other than pl's own.
func writer(p *plan.Plan, pl plan.Place) int {
	found := -1
	for r := range p.GPUs {
		for b := range p.GPUs[r].ThreadBlocks {
			for _, m := range plan.EachMove(p.Program(r, b)) {
				for _, d := range m.Dst {
					if overlap(&d, &pl) && (found < 0 || found == pl.Rank) {
						found = r
					}
				}
			}
		}
	}
	return found
}
