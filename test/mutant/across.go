package mutant

import (
	"math/rand/v2"
	"slices"

	"github.com/goccl/goccl/plan"
)

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
