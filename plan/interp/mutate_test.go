package interp_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/goccl/goccl/dsl/programs"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/interp"
)

var (
	mutants = flag.Int("mutants", 25, "mutants of each shipped plan")
	seed    = flag.Uint64("mutation-seed", 1, "which mutants")
)

// TestMutants breaks shipped plans in small ways. Whatever the verifier still accepts must be as good as the original: it is run under many
// interleavings and sizes, and one wrong result means that the verifier accepted a wrong plan.
func TestMutants(t *testing.T) {
	shapes := []programs.Options{{Ranks: 2, Instances: 1}, {Ranks: 3, Instances: 1}, {Ranks: 4, Hosts: 2, Instances: 1}}
	tally := map[string][2]int{} // by mutation: rejected, equivalent
	shipped(t, shapes, func(name string, p *plan.Plan) {
		rng := rand.New(rand.NewPCG(*seed, uint64(len(name))))
		for i := range *mutants {
			q, err := plan.Decode(p.Encode())
			if err != nil {
				t.Fatal(err)
			}
			what := mutate(q, rng)
			if what == "" || bytes.Equal(q.Encode(), p.Encode()) {
				continue
			}
			r, err := plan.Check(q, plan.VerifyOptions{})
			kind, _, _ := strings.Cut(what, ":")
			n := tally[kind]
			if err != nil {
				n[0]++
				tally[kind] = n
				continue
			}
			n[1]++
			tally[kind] = n
			for s := range uint64(8) {
				if err := interp.CheckCollective(q, sizes(q, r.EvenOnly), s); err != nil {
					t.Fatalf("%s, mutant %d (%s) passes the verifier, and with seed %d: %v", name, i, what, s, err)
				}
			}
		}
	})
	kinds := make([]string, 0, len(tally))
	total, equivalent := 0, 0
	for k, n := range tally {
		kinds = append(kinds, fmt.Sprintf("%-28s %5d rejected %5d equivalent", k, n[0], n[1]))
		total += n[0] + n[1]
		equivalent += n[1]
	}
	sort.Strings(kinds)
	t.Logf("%d mutants, %d of them equivalent\n%s", total, equivalent, strings.Join(kinds, "\n"))
}

// mutate makes one small change, and says which; "" when the plan has no place for the one it drew.
func mutate(p *plan.Plan, rng *rand.Rand) string {
	g := &p.GPUs[rng.IntN(len(p.GPUs))]
	if len(g.ThreadBlocks) == 0 {
		return ""
	}
	tb := &g.ThreadBlocks[rng.IntN(len(g.ThreadBlocks))]
	ops := &tb.Ops
	if len(*ops) == 0 {
		return ""
	}
	i := rng.IntN(len(*ops))
	if (*ops)[i].Name == plan.Pipeline && rng.IntN(4) > 0 {
		ops = &(*ops)[i].Ops
		i = rng.IntN(len(*ops))
	}
	op := &(*ops)[i]
	where := fmt.Sprintf("rank %d, thread block %d, op %d (%s)", g.ID, tb.ID, i, op.Name)
	chunk := func() *plan.Chunk {
		all := len(op.Src) + len(op.Dst)
		if all == 0 {
			return nil
		}
		if n := rng.IntN(all); n < len(op.Src) {
			return &op.Src[n]
		} else {
			return &op.Dst[n-len(op.Src)]
		}
	}
	mutations := []func() string{
		func() string { *ops = slices.Delete(*ops, i, i+1); return "drop op" },
		func() string { *ops = slices.Insert(*ops, i, *op); return "duplicate op" },
		func() string {
			j := rng.IntN(len(*ops))
			(*ops)[i], (*ops)[j] = (*ops)[j], (*ops)[i]
			return "swap ops"
		},
		func() string {
			if i+1 == len(*ops) {
				return ""
			}
			(*ops)[i], (*ops)[i+1] = (*ops)[i+1], (*ops)[i]
			return "swap neighbours"
		},
		func() string {
			for j := i; j < len(*ops); j++ {
				if (*ops)[j].Name == plan.Nop {
					*ops = slices.Delete(*ops, j, j+1)
					return "drop nop"
				}
			}
			return ""
		},
		func() string {
			if len(op.ChannelIDs) == 0 {
				return ""
			}
			j := rng.IntN(len(op.ChannelIDs))
			op.ChannelIDs = slices.Delete(slices.Clone(op.ChannelIDs), j, j+1)
			return "drop channel"
		},
		func() string {
			n := len(tb.ChannelIDs(op.ChannelType))
			if len(op.ChannelIDs) == 0 || n == 0 {
				return ""
			}
			op.ChannelIDs = slices.Clone(op.ChannelIDs)
			op.ChannelIDs[rng.IntN(len(op.ChannelIDs))] = rng.IntN(n)
			return "other channel"
		},
		func() string {
			c := chunk()
			if c == nil {
				return ""
			}
			c.Index += rng.IntN(2)*2 - 1
			return "shift offset"
		},
		func() string {
			if len(op.Src) == 0 || len(op.Dst) == 0 {
				return ""
			}
			op.Src[0].Index, op.Dst[0].Index = op.Dst[0].Index, op.Src[0].Index
			return "swap offsets"
		},
		func() string {
			if len(op.Src) == 0 {
				return ""
			}
			d := rng.IntN(2)*2 - 1
			for j := range op.Src {
				op.Src[j].Size += d
			}
			for j := range op.Dst {
				op.Dst[j].Size += d
			}
			return "change size"
		},
		func() string {
			c := chunk()
			if c == nil || c.Kind != plan.RemoteChunk {
				return ""
			}
			c.ID = rng.IntN(len(tb.RemoteBufferIDs(op.ChannelType)))
			return "wrong remote buffer"
		},
		func() string {
			c := chunk()
			if c == nil || c.Kind != plan.LocalChunk {
				return ""
			}
			c.Type = []plan.BufferType{plan.Input, plan.Output, plan.Scratch}[rng.IntN(3)]
			return "wrong buffer"
		},
		func() string {
			c := chunk()
			if c == nil {
				return ""
			}
			c.Index = 0
			return "offset zero"
		},
		func() string {
			if len(op.Src) < 2 {
				return ""
			}
			j := rng.IntN(len(op.Src))
			op.Src = slices.Delete(op.Src, j, j+1)
			return "drop source"
		},
		func() string {
			if len(op.Src) < 2 {
				return ""
			}
			op.Src[1] = op.Src[len(op.Src)-1]
			return "repeat source"
		},
		func() string {
			if len(op.Dst) < 2 {
				return ""
			}
			j := rng.IntN(len(op.Dst))
			op.Dst = slices.Delete(op.Dst, j, j+1)
			return "drop destination"
		},
		func() string {
			if op.Name != plan.Signal {
				return ""
			}
			op.Name = plan.RlxSignal
			return "relax signal"
		},
		func() string {
			if op.Name != plan.PutWithSignalAndFlush && op.Name != plan.PutWithSignal {
				return ""
			}
			op.Name = plan.Put
			return "put without signal"
		},
		func() string {
			if len(op.SemaphoreIDs) == 0 {
				return ""
			}
			op.SemaphoreIDs = []int{rng.IntN(len(g.Semaphores))}
			return "other semaphore"
		},
		func() string {
			if len(g.Semaphores) == 0 {
				return ""
			}
			g.Semaphores[rng.IntN(len(g.Semaphores))].InitValue++
			return "semaphore value"
		},
		func() string {
			if op.Name != plan.Barrier {
				return ""
			}
			op.BarrierID++
			return "other barrier"
		},
		func() string {
			if op.Slice.Count < 2 {
				return ""
			}
			op.Slice.Index = rng.IntN(op.Slice.Count)
			return "other slice"
		},
		func() string {
			if !p.DoubleScratch {
				return ""
			}
			p.DoubleScratch = false
			return "single scratch"
		},
		func() string {
			if op.Name != plan.Pipeline {
				return ""
			}
			op.NumChunks += rng.IntN(2)*2 - 1
			return "pipeline chunks"
		},
		func() string {
			other := &p.GPUs[rng.IntN(len(p.GPUs))]
			if len(other.ThreadBlocks) != len(g.ThreadBlocks) {
				return ""
			}
			*ops = slices.Clone(other.ThreadBlocks[tb.ID].Ops)
			return "another rank's program"
		},
	}
	for range 20 {
		if what := mutations[rng.IntN(len(mutations))](); what != "" {
			return what + ": " + where
		}
	}
	return ""
}
