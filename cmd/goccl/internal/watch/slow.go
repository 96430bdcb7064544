package watch

import (
	"cmp"
	"slices"
)

// leastCompared is how many collectives all ranks must remember before one of them is called slow.
const leastCompared = 20

// slow names a rank that comes last almost always, and for which the others wait noticeably.
func (j *judge) slow(c *Communicator) {
	if len(c.Ranks) < 2 || c.compared < leastCompared {
		return
	}
	byLate := slices.Clone(c.Ranks)
	slices.SortStableFunc(byLate, func(a, b *Rank) int { return cmp.Compare(b.LateMs, a.LateMs) })
	worst, next := byLate[0], byLate[1]
	period := worst.period()
	if worst.LateMs > 1 && worst.LateMs > 3*next.LateMs && worst.LateMs > period/5 {
		j.add(KindSlow, c, []*Rank{worst}, nil, "compare its host with the others: processors, other processes, data "+
			"loading, clocks of its GPU (goccl doctor)",
			"calls collectives %.1f ms after the first rank, which is %.0f %% of the %.1f ms from one to the next; the next "+
				"slowest %.1f ms", worst.LateMs, 100*worst.LateMs/period, period, next.LateMs)
	}
}

// period is the time from one collective to the next, in ms, over those that are remembered.
func (r *Rank) period() float64 {
	var first, last *Operation
	for i := range r.Recent {
		if o := &r.Recent[i]; !o.Message {
			if first == nil {
				first = o
			}
			last = o
		}
	}
	if first == nil || first == last {
		return 0
	}
	return float64(last.Enqueued-first.Enqueued) / 1e6 / float64(last.Call-first.Call)
}
