package plan

func (w *writer) op(n int, op *Op) {
	w.obj(-1, func() {
		w.item().key("name").str(string(op.Name))
		if k := op.Name.Kind(); k != nil && k.Does.Has(Joins) {
			w.item().key("barrier_id").int(op.BarrierID)
			w.item().key("num_threadblocks").int(op.NumThreadBlocks)
		}
		if op.loops() {
			w.item().key("iter_context").obj(-1, func() {
				w.item().key("unit_size").int(int(op.UnitSize))
				w.item().key("num_chunks").int(op.NumChunks)
			})
			w.item().key("ops").arr(n, len(op.Ops), func(i int) { w.op(n+1, &op.Ops[i]) })
		}
		if len(op.Src) > 0 {
			w.item().key("src_buff").flat(len(op.Src), func(i int) { w.chunk(&op.Src[i]) })
		}
		if len(op.Dst) > 0 {
			w.item().key("dst_buff").flat(len(op.Dst), func(i int) { w.chunk(&op.Dst[i]) })
		}
		if op.ChannelType != NoChannel {
			w.item().key("channel_type").str(string(op.ChannelType))
		}
		if len(op.ChannelIDs) > 0 {
			w.item().key("channel_ids").ints(op.ChannelIDs)
		}
		if len(op.SemaphoreIDs) > 0 {
			w.item().key("semaphore_ids").ints(op.SemaphoreIDs)
		}
		if op.Slice.Count > 0 {
			w.item().key("tbg_info").obj(-1, func() {
				w.item().key("tb_id").int(op.Slice.Index)
				w.item().key("tbg_size").int(op.Slice.Count)
			})
		}
		if op.ReduceOp != CallerOp {
			w.item().key("reduce_op").str(string(op.ReduceOp))
		}
	})
}

func (w *writer) chunk(c *Chunk) {
	w.obj(-1, func() {
		switch c.Kind {
		case LocalChunk:
			w.item().key("type").str(string(c.Type))
		case RemoteChunk:
			w.item().key("buffer_id").int(c.ID)
		case SwitchChunk:
			w.item().key("switch_channel_id").int(c.ID)
		}
		w.item().key("index").int(c.Index)
		w.item().key("size").int(c.Size)
	})
}
