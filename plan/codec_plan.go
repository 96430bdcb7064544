package plan

import "slices"

func (c *codec) plan(p *Plan) {
	start := c.at()
	keys := c.object(true, func() {
		c.int("schema_version", &p.SchemaVersion)
		word(c, "name", &p.Name)
		word(c, "collective", &p.Collective)
		word(c, "protocol", &p.Protocol)
		c.bool("inplace", &p.InPlace)
		c.bool("reuse_resources", &p.ReuseResources)
		c.int("num_threads_per_block", &p.ThreadsPerBlock)
		c.bool("use_double_scratch_buffer", &p.DoubleScratch)
		c.int64("buffer_alignment", &p.Alignment)
		c.uint("min_message_size", &p.MinSize)
		c.uint("max_message_size", &p.MaxSize)
		if c.has(p.Root != 0) {
			c.int("root", &p.Root)
		}
		if c.has(len(p.Postcondition) > 0) {
			list(c, "postcondition", "entries", c.r.limits.PostcondTerms, true, &p.Postcondition,
				func(_ int, e *Postcond) { c.postcond(e) })
		}
		list(c, "gpus", "ranks", c.r.limits.Ranks, true, &p.GPUs, func(i int, g *GPU) {
			if c.w != nil && c.w.gpu != nil {
				one := c.w.gpu(i)
				c.gpu(&one)
				c.w.flush()
				return
			}
			defer c.within(Pos{i, -1, -1, -1})()
			c.gpu(g)
		})
	})
	for _, k := range []string{"name", "collective", "protocol", "inplace", "gpus"} {
		if c.w == nil && c.r.err == nil && !slices.Contains(keys, k) {
			c.r.fail(start, "the plan has no %q", k)
		}
	}
}

// at returns the position of the next token, to read.
func (c *codec) at() int {
	c.r.space()
	return c.r.off
}

// within sets the position that errors name, until the function that it returns is called.
func (c *codec) within(pos Pos) (leave func()) {
	old := c.r.pos
	c.r.pos = pos
	return func() { c.r.pos = old }
}

func (c *codec) postcond(p *Postcond) {
	if c.w == nil {
		p.Size = 1
	}
	c.object(false, func() {
		c.int("rank", &p.Rank)
		c.int("index", &p.Index)
		c.int("size", &p.Size)
		if c.has(p.Op != CallerOp) {
			word(c, "reduce_op", &p.Op)
		}
		list(c, "of", "contributions", c.r.limits.PostcondTerms, false, &p.Of, func(_ int, t *Contribution) {
			c.object(false, func() {
				c.int("rank", &t.Rank)
				c.int("index", &t.Index)
			})
		})
	})
}

func (c *codec) gpu(g *GPU) {
	if c.w == nil {
		g.ID = -1
	}
	l := c.r.limits
	c.object(true, func() {
		c.int("id", &g.ID)
		c.int("input_chunks", &g.InputChunks)
		c.int("output_chunks", &g.OutputChunks)
		c.int("scratch_chunks", &g.ScratchChunks)
		list(c, "channels", "entries", l.ChannelsPerRank, true, &g.Channels, func(_ int, e *Channel) { c.channel(e) })
		list(c, "remote_buffers", "remote buffers", l.RemoteBuffers, true, &g.RemoteBuffers,
			func(_ int, b *RemoteBuffer) { c.remoteBuffer(b) })
		list(c, "semaphores", "semaphores", l.Semaphores, false, &g.Semaphores, func(_ int, s *Semaphore) {
			c.object(false, func() { c.int("init_value", &s.InitValue) })
		})
		list(c, "threadblocks", "thread blocks", l.ThreadBlocks, true, &g.ThreadBlocks, func(i int, tb *ThreadBlock) {
			defer c.within(Pos{c.r.pos.Rank, i, -1, -1})()
			c.threadBlock(tb)
		})
	})
}

func (c *codec) channel(h *Channel) {
	limit := c.r.limits.ChannelsPerRank
	c.object(false, func() {
		word(c, "channel_type", &h.Type)
		if c.has(h.Type != SwitchChannel && h.Type != HookChannel) {
			c.ints("connected_to", &h.ConnectedTo, limit)
		}
		if c.has(h.Type == SwitchChannel) {
			word(c, "buffer_type", &h.BufferType)
			list(c, "rank_groups", "groups", limit, false, &h.RankGroups, func(_ int, g *RankGroup) { c.rankGroup(g) })
		}
		if c.has(h.Type == HookChannel) {
			list(c, "hooks", "hooks", c.r.limits.Hooks, false, &h.Hooks, func(_ int, k *Hook) { c.hook(k) })
		}
		if c.take("buff") { // the older name of buffer_type
			bareWord(c, "buff", &h.BufferType)
		}
	})
}

func (c *codec) hook(h *Hook) {
	c.object(false, func() {
		word(c, "type", &h.Type)
		c.int("index", &h.Index)
		c.int("size", &h.Size)
		if c.has(len(h.After) > 0) {
			c.ints("after", &h.After, c.r.limits.Hooks)
		}
	})
}

func (c *codec) rankGroup(g *RankGroup) {
	at, size := c.at(), -1
	if c.w != nil {
		size = len(g.Ranks)
	}
	c.object(false, func() {
		c.int("size", &size)
		c.ints("ranks", &g.Ranks, c.r.limits.Ranks)
	})
	if size >= 0 && size != len(g.Ranks) {
		c.r.fail(at, "a group of size %d lists %d ranks", size, len(g.Ranks))
	}
}

func (c *codec) remoteBuffer(b *RemoteBuffer) {
	c.object(false, func() {
		c.int("rank", &b.Rank)
		word(c, "type", &b.Type)
		list(c, "access_channel_types", "access types", 2, false, &b.Access,
			func(_ int, t *ChannelType) { bareWord(c, "access_channel_types", t) })
	})
}

func (c *codec) threadBlock(tb *ThreadBlock) {
	if c.w == nil {
		tb.ID = -1
	}
	l := c.r.limits
	c.object(true, func() {
		c.int("id", &tb.ID)
		list(c, "channels", "entries", 64, false, &tb.Channels, func(_ int, r *ChannelRefs) {
			c.object(false, func() {
				word(c, "channel_type", &r.Type)
				c.ints("channel_ids", &r.IDs, l.ChannelsPerBlock)
				c.ignore("buff", "buffer_type") // they repeat the channel's own entry
			})
		})
		list(c, "remote_buffer_refs", "entries", 64, false, &tb.RemoteBufferRefs, func(_ int, r *BufferRefs) {
			c.object(false, func() {
				word(c, "access_channel_type", &r.Access)
				c.ints("remote_buffer_ids", &r.IDs, l.RemotePerBlock)
			})
		})
		c.ops(&tb.Ops)
	})
}

// ignore reads strings that have no meaning.
func (c *codec) ignore(keys ...string) {
	for _, k := range keys {
		if c.take(k) {
			c.r.word(k)
		}
	}
}
