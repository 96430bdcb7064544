package plan

import "math"

func (v *validator) op(op *Op) {
	k := op.Name.Kind()
	if !v.need(k != nil, "name", "there is no op %q", op.Name) {
		return
	}
	v.need(op.ReduceOp.Valid(), "reduce_op", "%q is not sum, min, max or prod", op.ReduceOp)
	v.need(k.Does.Has(Loops) || len(op.Ops) == 0, "ops", "only a pipeline has a body")
	switch {
	case k.Does.Has(Joins):
		v.within(op.BarrierID, 0, v.l.Barriers-1, "barrier_id", "the id")
		v.within(op.NumThreadBlocks, 1, max(1, len(v.gpu.ThreadBlocks)), "num_threadblocks", "the number of thread blocks")
		v.barrier(op)
	case k.Semaphores:
		v.entries(len(op.SemaphoreIDs), v.l.SemaphoresPerOp, "semaphore_ids")
		for i, id := range op.SemaphoreIDs {
			v.at("semaphore_ids", i, id >= 0 && id < len(v.gpu.Semaphores), "", "semaphore %d of %d", id,
				len(v.gpu.Semaphores))
		}
	case k.Does.Has(Loops):
		v.pipeline(op)
	}
	v.channels(op, k)
	if k.Does.Has(Moves) || len(op.Src)+len(op.Dst) > 0 {
		v.operands(op, k)
	}
	if op.Bound != nil {
		v.bound(op, k)
	}
	if op.Slice != (Slice{}) {
		v.need(k.Sliced(op.ChannelType), "tbg_info", "%s over %s channels does not work in slices",
			op.Name, op.ChannelType)
		v.within(op.Slice.Count, 1, v.l.Slices, "tbg_info.tbg_size", "the number of slices")
		v.need(op.Slice.Index >= 0 && op.Slice.Index < op.Slice.Count, "tbg_info.tb_id", "slice %d of %d", op.Slice.Index,
			op.Slice.Count)
	}
}

// barrier checks that all uses of a barrier of a rank state the same number of thread blocks: executors count arrivals
// in multiples of it.
func (v *validator) barrier(op *Op) {
	first, ok := v.barriers[op.BarrierID]
	if !ok {
		v.barriers[op.BarrierID] = barrierUse{v.pos, op.NumThreadBlocks}
		return
	}
	v.need(op.NumThreadBlocks == first.blocks, "num_threadblocks",
		"barrier %d is for %d thread blocks here and for %d at %v", op.BarrierID, op.NumThreadBlocks, first.blocks, first.at)
}

// entries checks the length of a list whose entry i is served by thread i.
func (v *validator) entries(n, limit int, field string) {
	v.within(n, 1, limit, field, "the number of entries")
	if v.l.ThreadServesEntry {
		v.within(n, 1, v.p.ThreadsPerBlock, field, "the number of entries, each served by one thread of the block,")
	}
}

func (v *validator) pipeline(op *Op) {
	v.need(op.UnitSize > 0 && op.UnitSize%v.p.Alignment == 0, "iter_context.unit_size",
		"%d is not a positive multiple of buffer_alignment %d", op.UnitSize, v.p.Alignment)
	v.within(op.NumChunks, 1, v.l.Chunks, "iter_context.num_chunks", "the number of chunks")
	pos := v.pos
	for i := range op.Ops {
		v.pos.Inner = i
		if v.need(!op.Ops[i].does(Loops), "name", "a pipeline within a pipeline") {
			v.op(&op.Ops[i])
		}
		if v.err != nil {
			return
		}
	}
	v.pos = pos
}

// channels checks channel_type and channel_ids.
func (v *validator) channels(op *Op, k *OpKind) {
	if len(k.Channels) == 0 {
		return // MSCCL++ writes a type on some local ops; it has no meaning there
	}
	if !k.On(op.ChannelType) {
		v.bad(ErrInvalid, "channel_type", "%s does not work over %q channels, only over %v", op.Name, op.ChannelType,
			k.Channels)
		return
	}
	ids := v.tb.ChannelIDs(op.ChannelType)
	for i, id := range op.ChannelIDs {
		if !v.at("channel_ids", i, id >= 0 && id < len(ids), "", "channel %d of the %d %s channels of the thread block", id,
			len(ids), op.ChannelType) {
			return
		}
		if op.ChannelType == HookChannel {
			v.hookUse(op, k, i, ids[id])
		}
	}
	if k.Does&(Takes|Adds|Flushes) != 0 || op.ChannelType == PortChannel {
		v.entries(len(op.ChannelIDs), v.l.ChannelsPerOp, "channel_ids")
	}
	if k.Does.Has(Moves) && op.ChannelType == PortChannel {
		v.need(len(op.ChannelIDs) == len(op.Dst), "channel_ids", "%d channels for %d destinations", len(op.ChannelIDs),
			len(op.Dst))
	}
}

func (v *validator) operands(op *Op, k *OpKind) {
	v.side(op, k.Src, op.Src, "src_buff")
	v.side(op, k.Dst, op.Dst, "dst_buff")
	if v.err != nil {
		return
	}
	if k.Pairs && len(op.Src) != len(op.Dst) && !(k.Fan && len(op.Src) == 1) {
		v.bad(ErrInvalid, "dst_buff", "%d destinations for %d sources", len(op.Dst), len(op.Src))
		return
	}
	for i := range op.Dst {
		want := op.Src[0].Size
		if k.Pairs {
			want = op.Src[op.srcOf(i)].Size
		}
		v.at("dst_buff", i, op.Dst[i].Size == want, "size", "%d chunks receive %d", op.Dst[i].Size, want)
	}
	for i := range op.Src {
		v.at("src_buff", i, k.Pairs || op.Src[i].Size == op.Src[0].Size, "size", "%d chunks combine with %d", op.Src[i].Size,
			op.Src[0].Size)
		v.at("src_buff", i, !k.SourcePackets(op.ChannelType, i) || op.Src[i].Kind != LocalChunk || op.Src[i].Type == Scratch,
			"type", "packets live in scratch only")
	}
	if op.ChannelType == PortChannel {
		v.portTargets(op)
	}
}

// portTargets checks that a port transfer's channel leads to the rank that owns the destination.
func (v *validator) portTargets(op *Op) {
	peers, ids := v.gpu.Peers(PortChannel), v.tb.ChannelIDs(PortChannel)
	for i, c := range op.Dst {
		owner := v.gpu.RemoteBuffers[v.tb.RemoteBufferIDs(PortChannel)[c.ID]].Rank
		peer := peers[ids[op.ChannelIDs[i]]]
		v.at("channel_ids", i, peer == owner, "", "the channel leads to rank %d and the destination is on rank %d", peer,
			owner)
	}
}

func (v *validator) side(op *Op, s Operands, chunks []Chunk, field string) {
	v.within(len(chunks), len(s.Front)+s.Min, v.l.BuffersPerOp, field, "the number of operands")
	if s.Rest == 0 {
		v.need(len(chunks) <= len(s.Front), field, "%s takes %d operands here, not %d", op.Name, len(s.Front), len(chunks))
	}
	for i := range chunks {
		if v.err != nil {
			return
		}
		v.enter(field, i)
		v.operand(op, s.At(i), &chunks[i])
		v.leave()
	}
}

var kindNames = [...]string{"a local buffer (type)", "a remote buffer (buffer_id)",
	"a switch channel (switch_channel_id)"}

func (v *validator) operand(op *Op, k OperandKind, c *Chunk) {
	if c.Kind != k.Chunk() {
		v.bad(ErrInvalid, "", "%s needs %s here", op.Name, kindNames[k.Chunk()])
		return
	}
	var count int
	t := c.Type
	switch c.Kind {
	case LocalChunk:
		if !c.Type.Valid() {
			v.bad(ErrInvalid, "type", "%q is not i, o or s", c.Type)
			return
		}
		count = v.p.ChunkCount(v.pos.Rank, c.Type)
	case RemoteChunk:
		ids := v.tb.RemoteBufferIDs(op.ChannelType)
		if c.ID < 0 || c.ID >= len(ids) {
			v.bad(ErrInvalid, "buffer_id", "buffer %d of the %d that the thread block reaches over %s channels", c.ID, len(ids),
				op.ChannelType)
			return
		}
		b := &v.gpu.RemoteBuffers[ids[c.ID]]
		t = b.Type
		count = v.p.ChunkCount(b.Rank, b.Type)
	case SwitchChunk:
		ids := v.tb.ChannelIDs(SwitchChannel)
		if c.ID < 0 || c.ID >= len(ids) {
			v.bad(ErrInvalid, "switch_channel_id", "switch channel %d of the thread block's %d", c.ID, len(ids))
			return
		}
		g := &v.switches[ids[c.ID]]
		t = g.Buffer
		count = math.MaxInt
		for _, r := range g.Ranks {
			count = min(count, v.p.ChunkCount(r, t))
		}
	}
	switch {
	case k.Packets() && t != Scratch:
		v.bad(ErrInvalid, "", "packets live in scratch, not in %q", t)
	case k.Packets() && v.p.Alignment < packetPayload:
		v.bad(ErrInvalid, "", "packets need a buffer_alignment of at least %d, not %d", packetPayload, v.p.Alignment)
	case c.Size < 1:
		v.bad(ErrInvalid, "size", "%d chunks", c.Size)
	case c.Index < 0 || c.Size > count || c.Index > count-c.Size:
		v.bad(ErrInvalid, "index", "chunks %d to %d of a buffer %q of %d chunks", c.Index, c.Index+c.Size-1, t, count)
	}
}
