package plan

// renumber writes the ops of a thread block with other chunk numbers. Tables keep their order, so channels and buffers
// keep their numbers.
type renumber struct {
	of     func(pl Plane, from, to int) (first, size int)
	from   *GPU
	tb     *ThreadBlock
	groups []SwitchGroup
}

func (u *renumber) ops(ops []Op) []Op {
	out := make([]Op, len(ops))
	for i := range ops {
		out[i] = ops[i]
		out[i].Src, out[i].Dst = u.chunks(&ops[i], ops[i].Src), u.chunks(&ops[i], ops[i].Dst)
		if len(ops[i].Ops) > 0 {
			out[i].Ops = u.ops(ops[i].Ops)
		}
	}
	return out
}

func (u *renumber) chunks(op *Op, list []Chunk) []Chunk {
	if list == nil {
		return nil
	}
	out := make([]Chunk, len(list))
	for i, c := range list {
		t := c.Type
		switch c.Kind {
		case RemoteChunk:
			t = u.from.RemoteBuffers[u.tb.RemoteBufferIDs(op.ChannelType)[c.ID]].Type
		case SwitchChunk:
			t = u.groups[u.tb.ChannelIDs(SwitchChannel)[c.ID]].Buffer
		}
		c.Index, c.Size = u.of(planeOf(t, false), c.Index, c.Index+c.Size)
		out[i] = c
	}
	return out
}
