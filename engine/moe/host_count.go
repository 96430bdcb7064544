package moe

import (
	"slices"

	"github.com/goccl/goccl/device"
)

func (e *hostEngine) count(args *CountArgs) error {
	a := *args
	return e.launch("moe_count", 0, a.Stream, func(t *task) error {
		n := t.b.size
		ranks := at[int32](a.Ranks, 0, count(a.Ranks != 0, n))
		experts := at[int32](a.ExpertCounts, 0, count(a.ExpertCounts != 0, a.Experts))
		in := device.Bytes(a.InRank, int64(count(a.InRank != 0, a.Tokens*n)))
		clear(ranks)
		clear(experts)
		clear(in)
		index, local := at[int64](a.TopKIndex, 0, a.Tokens*a.TopK), a.local(n)
		for i := range a.Tokens {
			seen := uint32(0)
			list := index[i*a.TopK:][:a.TopK]
			var counted []int64
			for _, x := range list {
				if x = t.expert(&a.Shape, x); x < 0 || slices.Contains(counted, x) {
					continue
				}
				counted = append(counted, x)
				if len(experts) > 0 {
					experts[x]++
				}
				seen |= 1 << (int(x) / local)
			}
			for p := range n {
				if seen>>p&1 != 0 && len(ranks) > 0 {
					ranks[p]++
				}
				if len(in) > 0 {
					in[i*n+p] = byte(seen >> p & 1)
				}
			}
		}
		return nil
	})
}
