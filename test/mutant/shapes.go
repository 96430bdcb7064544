package mutant

import (
	"math/rand/v2"
	"slices"

	"github.com/goccl/goccl/plan"
)

// shapes are changes to what depends on the size of a message: groups, pipelines, accepted sizes; and to barriers, port
// channels and postconditions.
func shapes(p *plan.Plan, g *plan.GPU, tb *plan.ThreadBlock, ops *[]plan.Op, i int, rng *rand.Rand) []func() string {
	op := &(*ops)[i]
	size := func() int {
		if len(op.Src) == 0 {
			return 1
		}
		return op.Src[0].Size
	}
	unit := func() int64 { return p.Alignment << rng.IntN(4) }
	return []func() string{
		func() string { // the same work by parts, one after the other or by two blocks
			if len(op.Src) == 0 || op.ChannelType == plan.PortChannel {
				return ""
			}
			parts := 2 + rng.IntN(3)
			whole := *op
			*ops = slices.Delete(*ops, i, i+1)
			for t := range parts {
				part := whole
				part.Slice = plan.Slice{Index: t, Count: parts}
				*ops = slices.Insert(*ops, i+t, part)
			}
			return "split into parts"
		},
		func() string {
			if op.Slice.Count < 2 {
				return ""
			}
			op.Slice.Count += rng.IntN(2)*2 - 1
			op.Slice.Index = min(op.Slice.Index, op.Slice.Count-1)
			return "other number of parts"
		},
		func() string {
			j := min(len(*ops), i+1+rng.IntN(4))
			if slices.ContainsFunc((*ops)[i:j], func(o plan.Op) bool { return o.Name == plan.Pipeline }) ||
				op.Name == plan.Pipeline {
				return ""
			}
			loop := plan.Op{Name: plan.Pipeline, UnitSize: unit(), NumChunks: size(), Ops: slices.Clone((*ops)[i:j])}
			*ops = slices.Replace(*ops, i, j, loop)
			return "into a pipeline"
		},
		func() string { return allIntoPipelines(p, unit(), rng) },
		func() string {
			if op.Name != plan.Pipeline {
				return ""
			}
			*ops = slices.Replace(*ops, i, i+1, op.Ops...)
			return "out of the pipeline"
		},
		func() string {
			if op.Name != plan.Pipeline {
				return ""
			}
			op.UnitSize = unit()
			return "other unit"
		},
		func() string {
			if op.Name != plan.Barrier {
				return ""
			}
			op.NumThreadBlocks += rng.IntN(2)*2 - 1
			return "barrier's count"
		},
		func() string {
			n := 1 + rng.IntN(len(g.ThreadBlocks))
			for k := range g.ThreadBlocks[:n] {
				list := &g.ThreadBlocks[k].Ops
				at := rng.IntN(len(*list) + 1)
				*list = slices.Insert(*list, at, plan.Op{Name: plan.Barrier, BarrierID: 200, NumThreadBlocks: n})
			}
			return "another barrier"
		},
		func() string {
			size := p.EvenUnit() * uint64(1+rng.IntN(4))
			p.MinSize, p.MaxSize = size, size
			return "one size"
		},
		func() string {
			most := 1 + rng.IntN(8)
			p.MinSize, p.MaxSize = p.EvenUnit()*uint64(1+rng.IntN(most)), p.EvenUnit()*uint64(most)
			return "other sizes"
		},
		func() string {
			if op.Name != plan.Put && op.Name != plan.PutWithSignal || op.ChannelType != plan.PortChannel {
				return ""
			}
			op.Name = []plan.OpName{plan.Put, plan.PutWithSignal, plan.PutWithSignalAndFlush}[rng.IntN(3)]
			return "other put over a port"
		},
		func() string {
			if ids := tb.ChannelIDs(plan.PortChannel); len(ids) > 0 {
				*ops = slices.Insert(*ops, i, plan.Op{Name: plan.Flush, ChannelType: plan.PortChannel,
					ChannelIDs: []int{rng.IntN(len(ids))}})
				return "another flush"
			}
			return ""
		},
		func() string {
			k := op.Name.Kind()
			if k.Does&(plan.Adds|plan.Takes) == 0 || k.Does.Has(plan.Moves) || k.Semaphores {
				return ""
			}
			was := op.ChannelType
			if op.ChannelType = plan.PortChannel; was == plan.PortChannel {
				op.ChannelType = plan.MemoryChannel
			}
			return "other type of channel"
		},
		func() string { return otherEnd(p, rng) },
	}
}

// allIntoPipelines puts one thread block of every rank into a pipeline, from its first data op on.
func allIntoPipelines(p *plan.Plan, unit int64, rng *rand.Rand) string {
	b := rng.IntN(len(p.GPUs[0].ThreadBlocks) + 1)
	changed := false
	for r := range p.GPUs {
		if b >= len(p.GPUs[r].ThreadBlocks) {
			continue
		}
		ops := &p.GPUs[r].ThreadBlocks[b].Ops
		first := slices.IndexFunc(*ops, func(o plan.Op) bool { return len(o.Src) > 0 })
		if first < 0 || slices.ContainsFunc(*ops, func(o plan.Op) bool { return o.Name == plan.Pipeline }) {
			continue
		}
		loop := plan.Op{Name: plan.Pipeline, UnitSize: unit, NumChunks: (*ops)[first].Src[0].Size,
			Ops: slices.Clone((*ops)[first:])}
		*ops = append((*ops)[:first:first], loop)
		changed = true
	}
	if !changed {
		return ""
	}
	return "a block of every rank into a pipeline"
}

// otherEnd states what a collective computes as a postcondition, or changes one.
func otherEnd(p *plan.Plan, rng *rand.Rand) string {
	if len(p.Postcondition) == 0 {
		if !p.Collective.Known() {
			return ""
		}
		var list []plan.Postcond
		for r := range p.GPUs {
			for k, d := range p.Demands(r) {
				if len(d.Of) > 0 {
					list = append(list, plan.Postcond{Rank: r, Index: k, Size: 1, Of: d.Of})
				}
			}
		}
		p.Collective, p.Postcondition = "mutant", list
		return "postconditions"
	}
	i := rng.IntN(len(p.Postcondition))
	c := &p.Postcondition[i]
	switch rng.IntN(4) {
	case 0:
		p.Postcondition = slices.Delete(p.Postcondition, i, i+1)
		return "one postcondition less"
	case 1:
		p.Postcondition = append(p.Postcondition, *c)
		return "a postcondition twice"
	case 2:
		c.Of = slices.Clone(c.Of)
		c.Of[rng.IntN(len(c.Of))].Rank = rng.IntN(len(p.GPUs))
		return "other postcondition"
	}
	c.Op = []plan.ReduceOp{plan.CallerOp, plan.Sum, plan.Max}[rng.IntN(3)]
	return "postcondition by another operator"
}
