package plan

import "strconv"

// Encode writes the plan as JSON, one op per line. The bytes depend only on the plan, and Decode(Encode(p)) encodes to
// the same bytes. It always writes SchemaVersion, and omits fields that are empty or have no meaning for an op.
func (p *Plan) Encode() []byte {
	w := &writer{}
	w.obj(0, func() {
		w.line(1).key("schema_version").int(SchemaVersion)
		w.line(1).key("name").str(p.Name)
		w.line(1).key("collective").str(string(p.Collective))
		w.line(1).key("protocol").str(string(p.Protocol))
		w.line(1).key("inplace").bool(p.InPlace)
		w.line(1).key("reuse_resources").bool(p.ReuseResources)
		w.line(1).key("num_threads_per_block").int(p.ThreadsPerBlock)
		w.line(1).key("use_double_scratch_buffer").bool(p.DoubleScratch)
		w.line(1).key("buffer_alignment").int(int(p.Alignment))
		w.line(1).key("min_message_size").uint(p.MinSize)
		w.line(1).key("max_message_size").uint(p.MaxSize)
		if p.Root != 0 {
			w.line(1).key("root").int(p.Root)
		}
		if len(p.Postcondition) > 0 {
			w.line(1).key("postcondition").arr(1, len(p.Postcondition), func(i int) { w.postcond(&p.Postcondition[i]) })
		}
		w.line(1).key("gpus").arr(1, len(p.GPUs), func(i int) { w.gpu(&p.GPUs[i]) })
	})
	return append(w.b, '\n')
}

// writer appends JSON. fresh is true right after an opening bracket, where no comma is due.
type writer struct {
	b     []byte
	fresh bool
}

func (w *writer) comma() {
	if !w.fresh {
		w.b = append(w.b, ',')
	}
	w.fresh = false
}

func (w *writer) indent(n int) {
	w.b = append(w.b, '\n')
	for range n {
		w.b = append(w.b, ' ')
	}
}

// line starts a member or element on a line of its own; item starts one on the same line.
func (w *writer) line(n int) *writer { w.comma(); w.indent(n); return w }
func (w *writer) item() *writer      { w.comma(); return w }

func (w *writer) key(k string) *writer { w.b = quote(w.b, k); w.b = append(w.b, ':'); return w }
func (w *writer) str(s string)         { w.b = quote(w.b, s) }
func (w *writer) int(v int)            { w.b = strconv.AppendInt(w.b, int64(v), 10) }
func (w *writer) uint(v uint64)        { w.b = strconv.AppendUint(w.b, v, 10) }
func (w *writer) bool(v bool)          { w.b = strconv.AppendBool(w.b, v) }

// obj writes an object. The closing brace is on its own line at indent n, or on the same line when n < 0.
func (w *writer) obj(n int, body func()) {
	w.b = append(w.b, '{')
	w.fresh = true
	body()
	if n >= 0 {
		w.indent(n)
	}
	w.b = append(w.b, '}')
	w.fresh = false
}

// arr writes a list with one element per line.
func (w *writer) arr(n, count int, element func(i int)) {
	w.b = append(w.b, '[')
	w.fresh = true
	for i := range count {
		w.line(n + 1)
		element(i)
	}
	if count > 0 {
		w.indent(n)
	}
	w.b = append(w.b, ']')
	w.fresh = false
}

func (w *writer) ints(v []int) {
	w.b = append(w.b, '[')
	for i, n := range v {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.int(n)
	}
	w.b = append(w.b, ']')
}

// flat writes a list on one line.
func (w *writer) flat(count int, element func(i int)) {
	w.b = append(w.b, '[')
	w.fresh = true
	for i := range count {
		w.item()
		element(i)
	}
	w.b = append(w.b, ']')
	w.fresh = false
}

func (w *writer) postcond(c *Postcond) {
	w.obj(-1, func() {
		w.item().key("rank").int(c.Rank)
		w.item().key("index").int(c.Index)
		w.item().key("size").int(c.Size)
		if c.Op != CallerOp {
			w.item().key("reduce_op").str(string(c.Op))
		}
		w.item().key("of").flat(len(c.Of), func(i int) {
			w.obj(-1, func() {
				w.item().key("rank").int(c.Of[i].Rank)
				w.item().key("index").int(c.Of[i].Index)
			})
		})
	})
}

func (w *writer) gpu(g *GPU) {
	w.obj(2, func() {
		w.line(3).key("id").int(g.ID)
		w.line(3).key("input_chunks").int(g.InputChunks)
		w.line(3).key("output_chunks").int(g.OutputChunks)
		w.line(3).key("scratch_chunks").int(g.ScratchChunks)
		w.line(3).key("channels").arr(3, len(g.Channels), func(i int) { w.channel(&g.Channels[i]) })
		w.line(3).key("remote_buffers").arr(3, len(g.RemoteBuffers), func(i int) { w.remoteBuffer(&g.RemoteBuffers[i]) })
		w.line(3).key("semaphores").flat(len(g.Semaphores), func(i int) {
			w.obj(-1, func() { w.item().key("init_value").int(g.Semaphores[i].InitValue) })
		})
		w.line(3).key("threadblocks").arr(3, len(g.ThreadBlocks), func(i int) { w.threadBlock(&g.ThreadBlocks[i]) })
	})
}

func (w *writer) channel(c *Channel) {
	w.obj(-1, func() {
		w.item().key("channel_type").str(string(c.Type))
		if c.Type != SwitchChannel {
			w.item().key("connected_to").ints(c.ConnectedTo)
			return
		}
		w.item().key("buffer_type").str(string(c.BufferType))
		w.item().key("rank_groups").flat(len(c.RankGroups), func(i int) {
			w.obj(-1, func() {
				w.item().key("size").int(len(c.RankGroups[i].Ranks))
				w.item().key("ranks").ints(c.RankGroups[i].Ranks)
			})
		})
	})
}

func (w *writer) remoteBuffer(b *RemoteBuffer) {
	w.obj(-1, func() {
		w.item().key("rank").int(b.Rank)
		w.item().key("type").str(string(b.Type))
		w.item().key("access_channel_types").flat(len(b.Access), func(i int) { w.str(string(b.Access[i])) })
	})
}

func (w *writer) threadBlock(tb *ThreadBlock) {
	w.obj(4, func() {
		w.line(5).key("id").int(tb.ID)
		w.line(5).key("channels").flat(len(tb.Channels), func(i int) {
			w.obj(-1, func() {
				w.item().key("channel_type").str(string(tb.Channels[i].Type))
				w.item().key("channel_ids").ints(tb.Channels[i].IDs)
			})
		})
		w.line(5).key("remote_buffer_refs").flat(len(tb.RemoteBufferRefs), func(i int) {
			w.obj(-1, func() {
				w.item().key("access_channel_type").str(string(tb.RemoteBufferRefs[i].Access))
				w.item().key("remote_buffer_ids").ints(tb.RemoteBufferRefs[i].IDs)
			})
		})
		w.line(5).key("ops").arr(5, len(tb.Ops), func(i int) { w.op(6, &tb.Ops[i]) })
	})
}
