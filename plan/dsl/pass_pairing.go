package dsl

import "github.com/goccl/goccl/plan"

// checkPairing compares every channel's signals with its peer's waits. A wait on the k-th channel from b to a consumes
// a signal on the k-th channel of the same type from a to b, so the counts of each such pair must agree, inside every
// pipeline and outside. The verifier checks the order.
func (p *CollectiveProgram) checkPairing() {
	type end struct {
		kind     ChannelType
		from, to int
		nth      int
		unit     uint64 // of the pipeline; 0 outside
		chunks   int
	}
	type tally struct {
		signals, waits int
		pos            Position
	}
	tallies := map[end]*tally{}
	var order []end // by first use, so that errors come in program order
	at := func(e end, pos Position) *tally {
		t := tallies[e]
		if t == nil {
			t = &tally{pos: pos}
			tallies[e] = t
			order = append(order, e)
		}
		return t
	}
	for _, r := range p.ranks {
		for _, o := range r.ops {
			for _, c := range o.channels {
				if c.kind == plan.HookChannel {
					continue // its other end is the caller's
				}
				e := end{kind: c.kind, from: c.src, to: c.dst, nth: c.nth}
				if o.loop != nil {
					e.unit, e.chunks = o.loop.unit, o.loop.numChunks
				}
				if o.kind.Does.Has(plan.Adds) {
					at(e, o.pos).signals++
				}
				if o.kind.Does.Has(plan.Takes) {
					e.from, e.to = e.to, e.from
					at(e, o.pos).waits++
				}
			}
		}
	}
	for _, e := range order {
		if t := tallies[e]; t.signals != t.waits {
			where := ""
			if e.unit != 0 {
				where = " in pipelines"
			}
			p.fail(t.pos, ErrPairing, "give every signal one wait on the peer's channel of the same number",
				"%s channel %d: rank %d signals rank %d %d times%s, which waits %d times", e.kind, e.nth, e.from, e.to, t.signals,
				where, t.waits)
		}
	}
}
