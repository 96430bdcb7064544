package record

import (
	"fmt"
	"slices"
	"time"

	"github.com/goccl/goccl/collective"
)

// Limits of a verdict of a slow rank: it was the last in most of some operations, and the others have waited for it for
// a good part of the time.
const (
	slowOperations = 8
	slowMost       = 0.8
	slowPart       = 0.2
)

// Slow compares the latest operations that all reporting ranks have finished. A rank that arrives last waits least: its
// own time from start to end is the shortest. No clocks are compared.
func Slow(me int, reports []*Report) *collective.Verdict {
	var all []*Report
	for _, r := range reports {
		if r != nil && r.answered() && !r.sampled() {
			all = append(all, r)
		}
	}
	if len(all) < 2 || reports[me] == nil || reports[me].Record == nil {
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
		k := 0
		for j := range times {
			if times[j] < times[k] {
				k = j
			}
		}
		sorted := slices.Sorted(slices.Values(times))
		last[k]++
		waited[k] += sorted[len(sorted)/2] - sorted[0]
	}
	span := time.Duration(end - begin)
	for k, r := range all {
		if n < slowOperations || float64(last[k]) < slowMost*float64(n) || float64(waited[k]) < slowPart*float64(span) {
			continue
		}
		q := Question{Me: me, Reports: reports}
		v := q.blame(collective.VerdictSlow, []int{r.Rank}, fmt.Sprintf(
			"rank %d came last to %d of the latest %d operations; the others waited %v of %v for it", r.Rank, last[k], n,
			round(waited[k]), round(span)),
			"compare that rank's work with the others': clocks and throttling of its GPU (nvidia-smi -q -d PERFORMANCE), "+
				"the load of its host, the size of its part")
		v.For, v.By, v.Communicator = waited[k], me, reports[me].Record.ID
		return v
	}
	return nil
}

// finished stores how long each rank took for an operation. It returns false if one has not finished it, or does not
// know its times.
func finished(all []*Report, number uint64, times []time.Duration) bool {
	for j, r := range all {
		o := r.Record.find(false, number)
		if o == nil || o.Ended == 0 || o.Started == 0 || o.Sampled {
			return false
		}
		times[j] = time.Duration(o.Ended - o.Started)
	}
	return true
}
