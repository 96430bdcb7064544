package symmetry

import "github.com/goccl/goccl/plan"

// renumber writes the ops of a thread block with other chunk numbers. Tables keep their order, so channels and buffers
// keep their numbers.
type renumber struct {
	of     func(pl plan.Plane, from, to int) (first, size int)
	from   *plan.GPU
	tb     *plan.ThreadBlock
	groups []plan.SwitchGroup
}

func (u *renumber) ops(ops []plan.Op) []plan.Op {
	out := make([]plan.Op, len(ops))
	for i := range ops {
		out[i] = ops[i]
		out[i].Src, out[i].Dst = u.chunks(&ops[i], ops[i].Src), u.chunks(&ops[i], ops[i].Dst)
		if len(ops[i].Ops) > 0 {
			out[i].Ops = u.ops(ops[i].Ops)
		}
	}
	return out
}

func (u *renumber) chunks(op *plan.Op, list []plan.Chunk) []plan.Chunk {
	if list == nil {
		return nil
	}
	out := make([]plan.Chunk, len(list))
	for i, c := range list {
		t := c.Type
		switch c.Kind {
		case plan.RemoteChunk:
			t = u.from.RemoteBuffers[u.tb.RemoteBufferIDs(op.ChannelType)[c.ID]].Type
		case plan.SwitchChunk:
			t = u.groups[u.tb.ChannelIDs(plan.SwitchChannel)[c.ID]].Buffer
		}
		c.Index, c.Size = u.of(plan.PlaneOf(t, false), c.Index, c.Index+c.Size)
		out[i] = c
	}
	return out
}
