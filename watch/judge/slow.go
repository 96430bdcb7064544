package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
)

// Limits of a verdict of a slow rank: it was the last in most of some operations, and the others have waited for it for
// a good part of the time.
const (
	slowOperations = 8
	slowMost       = 0.8
	slowPart       = 0.2
	// By calls alone more operations are compared, and it calls later than the next slowest rank by a factor.
	slowCalls  = 20
	slowFactor = 3
)

const slowMend = "compare that rank's work with the others': clocks and throttling of its GPU (nvidia-smi -q -d " +
	"PERFORMANCE, goccl doctor), the load of its host, its data loading, the size of its part"

// Slow compares the latest operations that all reporting ranks have finished. A rank that arrives last waits least: its
// own time from start to end is the shortest. No clocks are compared.
func Slow(me int, reports []*Report) *fault.Verdict {
	all := slices.DeleteFunc(heard(reports), (*Report).sampled)
	if len(all) < 2 || !reports[me].answered() {
		return nil
	}
	last, waited := make([]int, len(all)), make([]time.Duration, len(all))
	n := 0
	var begin, end int64
	times := make([]time.Duration, len(all))
	for i := range reports[me].Record.Operations {
		o := &reports[me].Record.Operations[i]
		if o.Message || !finished(all, o.Number, times) {
			continue
		}
		if n++; begin == 0 {
			begin = o.Started
		}
		end = o.Ended
		sorted := slices.Sorted(slices.Values(times))
		k := slices.Index(times, sorted[0])
		last[k]++
		waited[k] += sorted[len(sorted)/2] - sorted[0]
	}
	span := time.Duration(end - begin)
	for k, r := range all {
		if n < slowOperations || float64(last[k]) < slowMost*float64(n) || float64(waited[k]) < slowPart*float64(span) {
			continue
		}
		q := Question{Me: me, Reports: reports}
		v := q.blame(fault.VerdictSlow, []int{r.Rank}, fmt.Sprintf(
			"rank %d came last to %d of the latest %d operations; the others waited %v of %v for it", r.Rank, last[k], n,
			round(waited[k]), round(span)), slowMend)
		v.For, v.By, v.Communicator = waited[k], me, reports[me].Record.ID
		return v
	}
	return nil
}

// finished stores how long each rank took for an operation. It returns false if one has not finished it, or does not
// know its times.
func finished(all []*Report, number uint64, times []time.Duration) bool {
	for j, r := range all {
		o := find(r.Record, false, number)
		if o == nil || o.Ended == 0 || o.Started == 0 || o.Sampled {
			return false
		}
		times[j] = time.Duration(o.Ended - o.Started)
	}
	return true
}

// slow compares the times from start to end of operations. Where these are not known, or include the wait in a GPU's
// queue, it compares the times of calls.
func (v *View) slow() *fault.Verdict {
	for i, r := range v.Reports {
		if r.answered() {
			return cmp.Or(Slow(i, v.Reports), v.slowCalls())
		}
	}
	return nil
}

// slowCalls names a rank that calls last almost always, and for which the others wait noticeably.
func (v *View) slowCalls() *fault.Verdict {
	late, compared := Arrivals(v.Reports)
	if compared < slowCalls || len(late) < 2 {
		return nil
	}
	ranks := slices.SortedFunc(maps.Keys(late), func(a, b int) int {
		return cmp.Or(cmp.Compare(late[b].Late, late[a].Late), cmp.Compare(a, b))
	})
	worst, next := late[ranks[0]].Late, late[ranks[1]].Late
	period := v.Reports[ranks[0]].period()
	if worst < time.Millisecond || worst < slowFactor*next || float64(worst) < slowPart*float64(period) {
		return nil
	}
	q := Question{Me: -1, Reports: v.Reports}
	return q.blame(fault.VerdictSlow, ranks[:1], fmt.Sprintf("rank %d calls collectives %v after the first rank, "+
		"which is %.0f %% of the %v from one to the next; the next slowest %v", ranks[0], round(worst),
		100*float64(worst)/float64(period), round(period), round(next)), slowMend)
}

// Arrival is how much later than the first rank a rank calls collectives, and how long it then waits for the last one.
type Arrival struct{ Late, Behind time.Duration }

// Arrivals averages over the collectives that all reporting ranks remember, by rank; compared is how many those are.
// Clocks of hosts differ: it is nothing if the ranks are on several.
func Arrivals(reports []*Report) (by map[int]Arrival, compared int) {
	type calls struct {
		seen        int
		first, last int64
	}
	all, ranks := map[uint64]*calls{}, heard(reports)
	for _, r := range ranks {
		if r.Host != ranks[0].Host {
			return nil, 0
		}
		for i := range r.Record.Operations {
			o := &r.Record.Operations[i]
			if o.Message {
				continue
			}
			c := all[o.Number]
			if c == nil {
				c = &calls{first: o.Enqueued, last: o.Enqueued}
				all[o.Number] = c
			}
			c.seen++
			c.first, c.last = min(c.first, o.Enqueued), max(c.last, o.Enqueued)
		}
	}
	by = map[int]Arrival{}
	for _, r := range ranks {
		var sum Arrival
		n := 0
		for i := range r.Record.Operations {
			o := &r.Record.Operations[i]
			if c := all[o.Number]; !o.Message && c.seen == len(ranks) {
				n++
				sum.Late += time.Duration(o.Enqueued - c.first)
				sum.Behind += time.Duration(c.last - o.Enqueued)
			}
		}
		if compared = n; n > 0 {
			by[r.Rank] = Arrival{sum.Late / time.Duration(n), sum.Behind / time.Duration(n)}
		}
	}
	return by, compared
}

// period is the time from one collective to the next, over those that are remembered.
func (r *Report) period() time.Duration {
	var first, last *record.Operation
	for i := range r.Record.Operations {
		if o := &r.Record.Operations[i]; !o.Message {
			first = cmp.Or(first, o)
			last = o
		}
	}
	if first == nil || first.Number == last.Number {
		return 0
	}
	return time.Duration(last.Enqueued-first.Enqueued) / time.Duration(last.Number-first.Number)
}
