package plan

func (c *codec) ops(ops *[]Op) {
	at := c.r.pos
	list(c, "ops", "ops", c.r.limits.Ops, true, ops, func(i int, op *Op) {
		defer c.within(at.op(i))()
		c.op(op)
	})
}

func (c *codec) op(op *Op) {
	l := c.r.limits
	if c.r.ops++; c.r.ops > l.TotalOps {
		c.r.over(c.at(), "ops", "ops in the plan", l.TotalOps)
		return
	}
	older := olderOp{Op: op}
	c.object(false, func() {
		c.fields(op)
		if c.w == nil {
			older.read(c)
		}
	})
	older.finish()
}

// fields reads or writes the members of an op.
func (c *codec) fields(op *Op) {
	l := c.r.limits
	word(c, "name", &op.Name)
	if c.w == nil || op.does(Joins) {
		c.int("barrier_id", &op.BarrierID)
		c.int("num_threadblocks", &op.NumThreadBlocks)
	}
	if c.w == nil || op.does(Loops) {
		c.pipeline(op)
	}
	if c.has(len(op.Src) > 0) {
		c.chunks("src_buff", &op.Src)
	}
	if c.has(len(op.Dst) > 0) {
		c.chunks("dst_buff", &op.Dst)
	}
	if c.has(op.ChannelType != NoChannel) {
		word(c, "channel_type", &op.ChannelType)
	}
	if c.has(len(op.ChannelIDs) > 0) {
		c.ints("channel_ids", &op.ChannelIDs, l.ChannelsPerOp)
	}
	if c.has(op.Bound != nil) && c.member("count") {
		if c.w == nil {
			op.Bound = new(Bound)
		}
		c.object(false, func() {
			c.int("src", &op.Bound.Src)
			c.int("dst", &op.Bound.Dst)
			c.int("index", &op.Bound.Index)
		})
	}
	if c.has(len(op.SemaphoreIDs) > 0) {
		c.ints("semaphore_ids", &op.SemaphoreIDs, l.SemaphoresPerOp)
	}
	if c.has(op.Slice.Count > 0) && c.member("tbg_info") {
		c.object(false, func() {
			c.int("tb_id", &op.Slice.Index)
			c.int("tbg_size", &op.Slice.Count)
		})
	}
	if c.has(op.ReduceOp != CallerOp) {
		word(c, "reduce_op", &op.ReduceOp)
	}
}

// olderOp reads the older form of an op, which has one operand of each kind, and the range of a switch operand beside
// the ids of its channels.
type olderOp struct {
	*Op
	span  Chunk
	found bool
}

func (o *olderOp) read(c *codec) {
	o.found = o.found || c.key == "buffer_offset" || c.key == "size"
	c.int("buffer_offset", &o.span.Index)
	c.int("size", &o.span.Size)
	c.ignore("buffer_type")
	if c.take("src_chunk") {
		o.Src = append(o.Src, Chunk{})
		c.chunk(&o.Src[len(o.Src)-1])
	}
	if c.take("dst_chunk") {
		o.Dst = append(o.Dst, Chunk{})
		c.chunk(&o.Dst[len(o.Dst)-1])
	}
}

func (o *olderOp) finish() {
	if o.found && len(o.Src) == 0 {
		for _, id := range o.ChannelIDs {
			o.Src = append(o.Src, Switch(id, o.span.Index, o.span.Size))
		}
	}
}

// pipeline reads or writes the members that only a pipeline has.
func (c *codec) pipeline(op *Op) {
	if c.member("iter_context") {
		c.object(false, func() {
			c.int64("unit_size", &op.UnitSize)
			c.int("num_chunks", &op.NumChunks)
		})
	}
	if c.key == "ops" && c.r.pos.Inner >= 0 {
		c.r.fail(c.r.off, "a pipeline within a pipeline")
		c.key = ""
		return
	}
	c.ops(&op.Ops)
}

func (c *codec) chunks(key string, v *[]Chunk) {
	list(c, key, "buffers", c.r.limits.BuffersPerOp, false, v, func(_ int, e *Chunk) { c.chunk(e) })
}

func (c *codec) chunk(k *Chunk) {
	if c.r.operands++; c.r.operands > c.r.limits.TotalOperands {
		c.r.over(c.r.off, "", "operands in the plan", c.r.limits.TotalOperands)
		return
	}
	at, kinds := c.r.off, 0
	if c.w == nil {
		k.Size = 1
	}
	c.object(false, func() {
		kind := func(key string, t ChunkKind) bool {
			if c.w != nil {
				return k.Kind == t
			}
			if c.key != key {
				return false
			}
			k.Kind = t
			kinds++
			return true
		}
		if kind("type", LocalChunk) {
			word(c, "type", &k.Type)
		}
		if kind("buffer_id", RemoteChunk) {
			c.int("buffer_id", &k.ID)
		}
		if kind("switch_channel_id", SwitchChunk) {
			c.int("switch_channel_id", &k.ID)
		}
		c.int("index", &k.Index)
		c.int("size", &k.Size)
		switch {
		case c.w != nil:
		case c.take("buff"): // the older name of type
			k.Kind = LocalChunk
			kinds++
			bareWord(c, "buff", &k.Type)
		case c.take("rank"): // the source of a gstore names its own rank
			c.r.int()
		}
	})
	if c.w == nil && c.r.err == nil && kinds != 1 {
		c.r.fail(at, "a chunk needs one of type, buffer_id and switch_channel_id")
	}
}
