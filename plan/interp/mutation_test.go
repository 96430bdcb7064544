package interp_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goccl/goccl/plan"
)

// mutate makes one small change and returns its name, or "" when the plan has no place for the chosen change.
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
	for range 20 {
		if what := mutations[rng.IntN(len(mutations))](); what != "" {
			return what + ": " + where
		}
	}
	return ""
}

// reuseScratch makes two chunks of a rank's scratch the same chunk, for all their users.
func reuseScratch(p *plan.Plan, g *plan.GPU, rng *rand.Rand) string {
	if g.ScratchChunks < 2 {
		return ""
	}
	from, to := rng.IntN(g.ScratchChunks), rng.IntN(g.ScratchChunks)
	for r := range p.GPUs {
		user := &p.GPUs[r]
		for b := range user.ThreadBlocks {
			tb := &user.ThreadBlocks[b]
			var walk func(ops []plan.Op)
			walk = func(ops []plan.Op) {
				for i := range ops {
					op := &ops[i]
					walk(op.Ops)
					for _, list := range [][]plan.Chunk{op.Src, op.Dst} {
						for j := range list {
							c := &list[j]
							mine := c.Kind == plan.LocalChunk && r == g.ID && c.Type == plan.Scratch
							if ids := tb.RemoteBufferIDs(op.ChannelType); c.Kind == plan.RemoteChunk && c.ID < len(ids) {
								rb := user.RemoteBuffers[ids[c.ID]]
								mine = rb.Rank == g.ID && rb.Type == plan.Scratch
							}
							if mine && c.Index == from {
								c.Index = to
							}
						}
					}
				}
			}
			walk(tb.Ops)
		}
	}
	return "reuse scratch"
}

// dropHandshake drops the n-th signal op of every rank on some thread block and the n-th wait op there, so that the
// rest is balanced.
func dropHandshake(p *plan.Plan, g *plan.GPU, rng *rand.Rand) string {
	b, n := rng.IntN(len(g.ThreadBlocks)), rng.IntN(3)
	dropped := false
	for r := range p.GPUs {
		if b >= len(p.GPUs[r].ThreadBlocks) {
			continue
		}
		ops := &p.GPUs[r].ThreadBlocks[b].Ops
		signals, waits := 0, 0
		*ops = slices.DeleteFunc(*ops, func(op plan.Op) bool {
			drop := false
			switch k := op.Name.Kind(); {
			case k.Semaphores:
			case k.Does == plan.Adds:
				drop = signals == n
				signals++
			case k.Does == plan.Takes:
				drop = waits == n
				waits++
			}
			dropped = dropped || drop
			return drop
		})
	}
	if !dropped {
		return ""
	}
	return "drop handshake"
}
