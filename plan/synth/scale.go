package synth

import "math"

// scaled is a topology with whole numbers: room on each edge for so many trees, of which every root has k.
type scaled struct {
	k     int
	room  []int64 // by edge
	share float64 // rate over the optimal rate
	unit  float64 // time in which the room of an edge is its rate
}

// maxTrees is the most trees per root: each is a chunk of the plan.
const maxTrees = 12

// enough is the share of the optimal rate that ends the search for k.
const enough = 0.9951

// scale finds a small number of trees per root whose rate is near the optimum. With k trees, a unit of time gives an
// edge room for the whole part of GBps·unit; the rate is k over the shortest unit in which k trees per root fit.
func (t *rateTest) scale(b *Bound) scaled {
	var best scaled
	for k := 1; k <= maxTrees; k++ {
		s := t.fit(k, b.GBps)
		if s.share > best.share+1e-9 {
			best = s
		}
		if best.share >= enough {
			break
		}
	}
	return best
}

// fit finds the shortest unit for k trees by bisection: more time never hurts.
func (t *rateTest) fit(k int, rate float64) scaled {
	fits := func(unit float64) bool {
		r := t.room(unit)
		_, short := t.short(int64(k), func(e int) int64 { return r[e] })
		return !short
	}
	low := float64(k) / rate
	if fits(low) {
		return scaled{k: k, room: t.room(low), share: 1, unit: low}
	}
	high := 2 * low
	for !fits(high) {
		low, high = high, 2*high
	}
	for high-low > 1e-4*low {
		if mid := (low + high) / 2; fits(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return scaled{k: k, room: t.room(high), share: float64(k) / rate / high, unit: high}
}

func (t *rateTest) room(unit float64) []int64 {
	out := make([]int64, len(t.g.Edges))
	for i, e := range t.g.Edges {
		out[i] = int64(math.Floor(e.GBps*unit + 1e-9))
	}
	return out
}

// slower gives the trees a little more time.
func (t *rateTest) slower(s scaled) scaled {
	const by = 1.03
	return scaled{k: s.k, room: t.room(s.unit * by), share: s.share / by, unit: s.unit * by}
}
