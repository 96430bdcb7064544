package programs

import "github.com/goccl/goccl/dsl"

// builder is a program with the channels that most programs need.
type builder struct {
	*dsl.CollectiveProgram
	o      Options
	blocks int // that serve peers
}

// link is one directed channel, by memory within a host and by port between hosts.
type link struct {
	mem  *dsl.MemoryChannel
	port *dsl.PortChannel
}

func (b *builder) link(dst, src int) link {
	if b.o.host(dst) == b.o.host(src) {
		return link{mem: b.MemoryChannel(dst, src)}
	}
	return link{port: b.PortChannel(dst, src)}
}

// mesh opens a link for every ordered pair; mesh[a][b] is from a to b.
func (b *builder) mesh() [][]link {
	m := make([][]link, b.o.Ranks)
	for a := range m {
		m[a] = make([]link, b.o.Ranks)
		for _, q := range b.peers(a) {
			m[a][q] = b.link(q, a)
		}
	}
	return m
}

// peers are the other ranks, starting after r, so that no two ranks begin with the same one.
func (b *builder) peers(r int) []int {
	n := b.o.Ranks
	out := make([]int, 0, n-1)
	for k := 1; k < n; k++ {
		out = append(out, (r+k)%n)
	}
	return out
}

// signal tells the peer that what came before is done.
func (l link) signal(tb dsl.Option) {
	if l.mem != nil {
		l.mem.Signal(tb)
		return
	}
	l.port.Signal(tb)
}

func (l link) wait(tb dsl.Option) {
	if l.mem != nil {
		l.mem.Wait(tb)
		return
	}
	l.port.Wait(tb)
}

// ready and awaitReady are the entry handshake: arrival without data.
func (l link) ready(tb dsl.Option) {
	if l.mem != nil {
		l.mem.Signal(tb, dsl.Relaxed())
		return
	}
	l.port.Signal(tb)
}

func (l link) awaitReady(tb dsl.Option) {
	if l.mem != nil {
		l.mem.Wait(tb, dsl.Relaxed())
		return
	}
	l.port.Wait(tb)
}

// send stores src to dst at the peer and signals it.
func (l link) send(dst, src dsl.Chunk, tb dsl.Option) {
	if l.mem != nil {
		l.mem.Put(dst, src, tb)
		l.mem.Signal(tb)
		return
	}
	l.port.PutWithSignal(dst, src, tb)
}

// sendAll sends to every listed peer. Stores go first and signals follow together, behind one fence.
func sendAll(to func(q int) link, peers []int, dst, src func(q int) dsl.Chunk, tb dsl.Option) {
	for _, q := range peers {
		if l := to(q); l.mem != nil {
			l.mem.Put(dst(q), src(q), tb)
		} else {
			l.port.PutWithSignal(dst(q), src(q), tb)
		}
	}
	for _, q := range peers {
		if l := to(q); l.mem != nil {
			l.mem.Signal(tb)
		}
	}
}

// toward picks a rank's link to a peer.
func toward(from []link) func(q int) link { return func(q int) link { return from[q] } }

// always is the function of no peer in particular.
func always(c dsl.Chunk) func(int) dsl.Chunk { return func(int) dsl.Chunk { return c } }

// drain waits until what was sent has left its source, which the caller may overwrite once the launch is over. Stores need nothing.
func (l link) drain(tb dsl.Option) {
	if l.port != nil {
		l.port.Flush(tb)
	}
}

// enter shakes hands with the given peers on one block.
func enter(from []link, peers []int, tb dsl.Option) {
	for _, q := range peers {
		from[q].ready(tb)
	}
	for _, q := range peers {
		from[q].awaitReady(tb)
	}
}

// leave tells the peers that their data has been read and written, and waits for the same from them.
func leave(from []link, peers []int, tb dsl.Option) {
	for _, q := range peers {
		from[q].signal(tb)
	}
	for _, q := range peers {
		from[q].wait(tb)
	}
}

// inGroups calls f with at most size elements at a time.
func inGroups[T any](list []T, size int, f func([]T)) {
	for len(list) > 0 {
		n := min(size, len(list))
		f(list[:n])
		list = list[n:]
	}
}

// op is the reduction operator option.
func (b *builder) op() dsl.Option { return dsl.With(b.o.ReduceOp) }

// maxPeerBlocks is how many blocks serve peers at most, in programs where one block may serve several: those with packets, which send
// everything before they wait for anything. Programs that shake hands with one peer after another need a block each, or they could hang.
const maxPeerBlocks = 16

// packetBlocks makes blocks serve several peers when there are many.
func (b *builder) packetBlocks() { b.blocks = min(b.blocks, maxPeerBlocks) }

// block numbers the block of r that serves peer q.
func (b *builder) block(r, q int) dsl.Option {
	return dsl.TB((q - r + b.o.Ranks - 1) % b.o.Ranks % b.blocks)
}

// allBlocks is the group of the blocks that serve peers.
func (b *builder) allBlocks() dsl.Option {
	g := make(dsl.ThreadBlockGroup, b.blocks)
	for i := range g {
		g[i] = i
	}
	return dsl.Group(g)
}

// maxOthers is how many operands besides the first a reduction of the portable format takes.
const maxOthers = 8

// reducePackets adds the packets of every listed scratch chunk to acc, in their order, into dst.
func (b *builder) reducePackets(r *dsl.Rank, dst, acc dsl.Chunk, packets []dsl.Chunk, tb dsl.Option) {
	inGroups(packets, maxOthers, func(part []dsl.Chunk) {
		r.Reduce(acc, part, dsl.Packet(), dsl.Into(dst), tb, b.op())
		acc = dst
	})
}

// reduceLocal adds the listed chunks to acc, in their order, into dst.
func (b *builder) reduceLocal(r *dsl.Rank, dst, acc dsl.Chunk, others []dsl.Chunk, tb dsl.Option) {
	inGroups(others, maxOthers, func(part []dsl.Chunk) {
		r.Reduce(acc, part, dsl.Into(dst), tb, b.op())
		acc = dst
	})
}

// pullReduce adds the same chunk of every listed peer to acc, in their order, into dst. chunk gives the peer's chunk.
func (b *builder) pullReduce(from []link, dst, acc dsl.Chunk, peers []int, chunk func(q int) dsl.Chunk, tb dsl.Option) {
	for _, q := range peers {
		from[q].mem.Reduce(acc, []dsl.Chunk{chunk(q)}, dsl.Into(dst), tb, b.op())
		acc = dst
	}
}

// in and out are a rank's buffers.
func (b *builder) in(r int) *dsl.Buffer  { return b.Rank(r).Input() }
func (b *builder) out(r int) *dsl.Buffer { return b.Rank(r).Output() }

// scratch reserves the same scratch on every rank.
func (b *builder) scratch(size int) []*dsl.Buffer {
	out := make([]*dsl.Buffer, b.o.Ranks)
	for r := range out {
		out[r] = b.Rank(r).Scratch(size)
	}
	return out
}

// copyOwn copies src to dst unless they are the same place.
func copyOwn(r *dsl.Rank, dst, src dsl.Chunk, tb dsl.Option) {
	if dst != src {
		r.Copy(dst, src, tb)
	}
}

// memory, for a rank of one host, is every peer of the same host; ports are the others.
func (b *builder) memoryPeers(r int) (out []int) {
	for _, q := range b.peers(r) {
		if b.o.host(q) == b.o.host(r) {
			out = append(out, q)
		}
	}
	return out
}
