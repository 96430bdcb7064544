package verdict_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// costs are what turns of blocks took.
type costs struct {
	time        []float64 // of a call without records, us
	control, on []float64 // ratios to the blocks of the same turn without records
}

func (c *costs) add(turn [setCount]time.Duration) {
	c.time = append(c.time, float64(turn[off].Nanoseconds())/2e3/blockCalls)
	c.control = append(c.control, float64(turn[control])/float64(turn[off]))
	c.on = append(c.on, float64(turn[on])/float64(turn[off]))
}

func (c *costs) String() string {
	t, _, _ := median(c.time)
	r, low, high := median(c.on)
	k, under, upper := median(c.control)
	return fmt.Sprintf("%.3f us; with records %.4f of it (95 %% within %.4f to %.4f), equal sets %.4f (%.4f to %.4f), "+
		"%d turns", t, r, low, high, k, under, upper, len(c.on))
}

// median returns the median and its interval of 95 %, by order statistics: no distribution is assumed.
func median(list []float64) (m, low, high float64) {
	sorted := slices.Sorted(slices.Values(list))
	n := float64(len(sorted))
	at := func(x float64) float64 { return sorted[int(min(max(x, 0), n-1))] }
	d := 0.98 * math.Sqrt(n)
	return at(n / 2), at(n/2 - d), at(n/2 + d)
}

func TestMedian(t *testing.T) {
	list := make([]float64, 401)
	for i := range list {
		list[i] = float64((i * 7) % 401)
	}
	if m, low, high := median(list); m != 200 || math.Abs(low-180.9) > 1 || math.Abs(high-220.1) > 1 {
		t.Error(m, low, high)
	}
	if m, low, high := median([]float64{3}); m != 3 || low != 3 || high != 3 {
		t.Error(m, low, high)
	}
}
