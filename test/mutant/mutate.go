// Package mutant makes small changes to plans, for tests: a mutant that the verifier accepts must run.
package mutant

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goccl/goccl/plan"
)

// Mutate makes one small change and returns its name, or "" when the plan has no place for the chosen change.
func Mutate(p *plan.Plan, rng *rand.Rand) string {
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
	drop := func(side *[]plan.Chunk, what string) string {
		if len(*side) < 2 {
			return ""
		}
		j := rng.IntN(len(*side))
		*side = slices.Delete(*side, j, j+1)
		return what
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
			if c == nil || c.Kind != plan.RemoteChunk || len(tb.RemoteBufferIDs(op.ChannelType)) == 0 {
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
		func() string { return drop(&op.Src, "drop source") },
		func() string {
			if len(op.Src) < 2 {
				return ""
			}
			op.Src[1] = op.Src[len(op.Src)-1]
			return "repeat source"
		},
		func() string { return drop(&op.Dst, "drop destination") },
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
			if len(op.SemaphoreIDs) == 0 || len(g.Semaphores) == 0 {
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
			if len(g.RemoteBuffers) == 0 {
				return ""
			}
			g.RemoteBuffers[rng.IntN(len(g.RemoteBuffers))].Rank = rng.IntN(len(p.GPUs))
			return "wrong peer's buffer"
		},
		func() string {
			for j := range g.Channels {
				if to := g.Channels[j].ConnectedTo; len(to) > 0 && rng.IntN(2) == 0 {
					to[rng.IntN(len(to))] = rng.IntN(len(p.GPUs))
					return "wrong peer"
				}
			}
			return ""
		},
		func() string { return reuseScratch(p, g, rng) },
		func() string { return dropHandshake(p, g, rng) },
		func() string {
			other := &g.ThreadBlocks[rng.IntN(len(g.ThreadBlocks))]
			if other == tb || len(op.ChannelIDs) > 0 || op.ChannelType != "" {
				return ""
			}
			moved := *op
			*ops = slices.Delete(*ops, i, i+1)
			other.Ops = slices.Insert(other.Ops, rng.IntN(len(other.Ops)+1), moved)
			return "move to another block"
		},
		func() string {
			if len(op.Src) < 2 {
				return ""
			}
			op.ReduceOp = []plan.ReduceOp{plan.Sum, plan.Min, plan.Max, plan.Prod}[rng.IntN(4)]
			return "other operator"
		},
		func() string {
			if len(op.Src) < 2 {
				return ""
			}
			c := &op.Src[1+rng.IntN(len(op.Src)-1)]
			c.Index = rng.IntN(max(1, g.ScratchChunks))
			return "other source"
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
	mutations = append(mutations, shapes(p, g, tb, ops, i, rng)...)
	for range 20 {
		if what := mutations[rng.IntN(len(mutations))](); what != "" {
			return what + ": " + where
		}
	}
	return ""
}
