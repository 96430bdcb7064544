package plan

func (d *decoder) threadBlock() (tb ThreadBlock) {
	tb.ID = -1
	l := d.limits
	d.object(func(k string) {
		switch k {
		case "id":
			tb.ID = d.int()
		case "channels":
			d.each(k, "entries", 64, func(int) { tb.Channels = append(tb.Channels, d.channelRefs()) })
		case "remote_buffer_refs":
			d.each(k, "entries", 64, func(int) { tb.RemoteBufferRefs = append(tb.RemoteBufferRefs, d.bufferRefs()) })
		case "ops":
			pos := d.pos
			d.each(k, "ops", l.Ops, func(i int) {
				d.pos.Op = i
				tb.Ops = append(tb.Ops, d.op())
				d.pos = pos
			})
		default:
			d.unknown(k)
		}
	})
	return tb
}

func (d *decoder) channelRefs() (r ChannelRefs) {
	d.object(func(k string) {
		switch k {
		case "channel_type":
			r.Type = ChannelType(d.word(k))
		case "channel_ids":
			r.IDs = d.ints(k, d.limits.ChannelsPerBlock)
		case "buff", "buffer_type": // repeats the channel's own entry
			d.word(k)
		default:
			d.unknown(k)
		}
	})
	return r
}

func (d *decoder) bufferRefs() (r BufferRefs) {
	d.object(func(k string) {
		switch k {
		case "access_channel_type":
			r.Access = ChannelType(d.word(k))
		case "remote_buffer_ids":
			r.IDs = d.ints(k, d.limits.RemotePerBlock)
		default:
			d.unknown(k)
		}
	})
	return r
}

func (d *decoder) op() (op Op) {
	l := d.limits
	if d.ops++; d.ops > l.TotalOps {
		d.over(d.off, "ops", "ops in the plan", l.TotalOps)
		return op
	}
	var loose struct { // the older form of glre
		index, size int
		used        bool
	}
	d.object(func(k string) {
		switch k {
		case "name":
			op.Name = OpName(d.word(k))
		case "src_buff":
			op.Src = d.chunks(k)
		case "dst_buff":
			op.Dst = d.chunks(k)
		case "channel_type":
			op.ChannelType = ChannelType(d.word(k))
		case "channel_ids":
			op.ChannelIDs = d.ints(k, l.ChannelsPerOp)
		case "semaphore_ids":
			op.SemaphoreIDs = d.ints(k, l.SemaphoresPerOp)
		case "barrier_id":
			op.BarrierID = d.int()
		case "num_threadblocks":
			op.NumThreadBlocks = d.int()
		case "reduce_op":
			op.ReduceOp = ReduceOp(d.word(k))
		case "tbg_info":
			op.Slice = d.slice()
		case "iter_context":
			d.iterContext(&op)
		case "ops":
			if d.pos.Inner >= 0 {
				d.fail(d.off, "a pipeline within a pipeline")
				return
			}
			pos := d.pos
			d.each(k, "ops", l.Ops, func(i int) {
				d.pos.Inner = i
				op.Ops = append(op.Ops, d.op())
				d.pos = pos
			})
		case "buffer_type":
			d.word(k)
		case "buffer_offset":
			loose.index, loose.used = d.int(), true
		case "size":
			loose.size, loose.used = d.int(), true
		case "src_chunk":
			op.Src = append(op.Src, d.chunk())
		case "dst_chunk":
			op.Dst = append(op.Dst, d.chunk())
		default:
			d.unknown(k)
		}
	})
	if loose.used && len(op.Src) == 0 {
		for _, id := range op.ChannelIDs {
			op.Src = append(op.Src, Switch(id, loose.index, loose.size))
		}
	}
	return op
}

func (d *decoder) slice() (s Slice) {
	d.object(func(k string) {
		switch k {
		case "tb_id":
			s.Index = d.int()
		case "tbg_size":
			s.Count = d.int()
		default:
			d.unknown(k)
		}
	})
	return s
}

func (d *decoder) iterContext(op *Op) {
	d.object(func(k string) {
		switch k {
		case "unit_size":
			op.UnitSize = d.int64()
		case "num_chunks":
			op.NumChunks = d.int()
		default:
			d.unknown(k)
		}
	})
}

func (d *decoder) chunks(field string) []Chunk {
	var v []Chunk
	d.each(field, "buffers", d.limits.BuffersPerOp, func(int) { v = append(v, d.chunk()) })
	return v
}

func (d *decoder) chunk() (c Chunk) {
	if d.operands++; d.operands > d.limits.TotalOperands {
		d.over(d.off, "", "operands in the plan", d.limits.TotalOperands)
		return c
	}
	c.Size = 1
	at := d.off
	kinds := 0
	d.object(func(k string) {
		switch k {
		case "type", "buff":
			c.Kind, c.Type = LocalChunk, BufferType(d.word(k))
			kinds++
		case "buffer_id":
			c.Kind, c.ID = RemoteChunk, d.int()
			kinds++
		case "switch_channel_id":
			c.Kind, c.ID = SwitchChunk, d.int()
			kinds++
		case "index":
			c.Index = d.int()
		case "size":
			c.Size = d.int()
		case "rank": // a gstore source names its own rank
			d.int()
		default:
			d.unknown(k)
		}
	})
	if d.err == nil && kinds != 1 {
		d.fail(at, "a chunk needs one of type, buffer_id and switch_channel_id")
	}
	return c
}
