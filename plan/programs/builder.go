package programs

import (
	"iter"
	"slices"

	"github.com/goccl/goccl/plan/dsl"
)

// builder is a program with helpers for the channels that most programs need.
type builder struct {
	*dsl.CollectiveProgram
	o      Options
	blocks int // that serve peers
}

func newBuilder(s dsl.AlgoSpec, o Options) *builder {
	return &builder{CollectiveProgram: dsl.NewCollectiveProgram(s), o: o, blocks: o.Ranks - 1}
}

// each visits the ranks whose programs are to be written.
func (b *builder) each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for r := range b.o.Ranks {
			if (b.o.only == nil || b.o.only(r)) && !yield(r) {
				return
			}
		}
	}
}

type link = dsl.Link

// link opens a link: by memory within a host, by a port between hosts.
func (b *builder) link(dst, src int) link { return b.Link(dst, src, b.o.host(dst) == b.o.host(src)) }

// mesh opens a link for every ordered pair; mesh[a][b] is from a to b.
func (b *builder) mesh() [][]link {
	m := make([][]link, b.o.Ranks)
	for a := range m {
		m[a] = b.links(a, b.peers(a))
	}
	return m
}

// peers returns the other ranks, starting after r, so that no two ranks begin with the same peer.
func (b *builder) peers(r int) []int {
	n := b.o.Ranks
	out := make([]int, 0, n-1)
	for k := 1; k < n; k++ {
		out = append(out, (r+k)%n)
	}
	return out
}

// sendAll sends to every listed peer. All stores come first; the signals follow together, behind one fence.
func sendAll(to func(q int) link, peers []int, dst, src func(q int) dsl.Chunk, tb dsl.Option) {
	for _, q := range peers {
		if l := to(q); l.Memory() != nil {
			l.Put(dst(q), src(q), tb)
		} else {
			l.Send(dst(q), src(q), tb)
		}
	}
	for _, q := range peers {
		if l := to(q); l.Memory() != nil {
			l.Signal(tb)
		}
	}
}

// toward returns a function that picks a rank's link to a peer.
func toward(from []link) func(q int) link { return func(q int) link { return from[q] } }

// always returns a function that ignores the peer.
func always(c dsl.Chunk) func(int) dsl.Chunk { return func(int) dsl.Chunk { return c } }

// toAll calls a method of the links to several peers.
func toAll(do func(link, ...dsl.Option), from []link, peers []int, tb dsl.Option) {
	for _, q := range peers {
		do(from[q], tb)
	}
}

// enter performs the entry handshake with the given peers on one block.
func enter(from []link, peers []int, tb dsl.Option) {
	toAll(link.Ready, from, peers, tb)
	toAll(link.AwaitReady, from, peers, tb)
}

// leave signals the peers that this rank has finished its accesses to their data, and waits for the same signal from
// them.
func leave(from []link, peers []int, tb dsl.Option) {
	toAll(link.Signal, from, peers, tb)
	toAll(link.Wait, from, peers, tb)
}

// op returns the option for the reduction operator.
func (b *builder) op() dsl.Option { return dsl.With(b.o.ReduceOp) }

// maxPeerBlocks is the maximum number of blocks that serve peers, in programs where one block may serve several peers:
// programs with packets, which send everything before they wait. Programs that handshake with one peer after another
// need one block per peer, or they could hang.
const maxPeerBlocks = 16

// packetBlocks lets a block serve several peers when there are many.
func (b *builder) packetBlocks() { b.blocks = min(b.blocks, maxPeerBlocks) }

// block returns the option for the block of r that serves peer q.
func (b *builder) block(r, q int) dsl.Option {
	return dsl.TB((q - r + b.o.Ranks - 1) % b.o.Ranks % b.blocks)
}

// allBlocks returns the group of all blocks that serve peers.
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
	for part := range slices.Chunk(packets, maxOthers) {
		r.Reduce(acc, part, dsl.Packet(), dsl.Into(dst), tb, b.op())
		acc = dst
	}
}

// reduceLocal adds the listed chunks to acc, in their order, into dst.
func (b *builder) reduceLocal(r *dsl.Rank, dst, acc dsl.Chunk, others []dsl.Chunk, tb dsl.Option) {
	for part := range slices.Chunk(others, maxOthers) {
		r.Reduce(acc, part, dsl.Into(dst), tb, b.op())
		acc = dst
	}
}

// pullReduce adds the same chunk of every listed peer to acc, in their order, into dst. chunk returns the peer's chunk.
func (b *builder) pullReduce(from []link, dst, acc dsl.Chunk, peers []int, chunk func(q int) dsl.Chunk, tb dsl.Option) {
	for _, q := range peers {
		from[q].Memory().Reduce(acc, []dsl.Chunk{chunk(q)}, dsl.Into(dst), tb, b.op())
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

// copyOwn copies src to dst unless they are the same chunk.
func copyOwn(r *dsl.Rank, dst, src dsl.Chunk, tb dsl.Option) {
	if dst != src {
		r.Copy(dst, src, tb)
	}
}

// railPeers returns the ranks of r's local rank on the other hosts, from the next host on.
func (b *builder) railPeers(r int) (out []int) {
	for k := 1; k < b.o.Hosts; k++ {
		out = append(out, (r+k*b.o.perHost())%b.o.Ranks)
	}
	return out
}

// links opens links from r to the listed peers, by rank.
func (b *builder) links(r int, peers ...[]int) []link {
	out := make([]link, b.o.Ranks)
	for _, list := range peers {
		for _, q := range list {
			out[q] = b.link(q, r)
		}
	}
	return out
}

// memoryPeers returns the peers of r on the same host. The other peers are reached by ports.
func (b *builder) memoryPeers(r int) (out []int) {
	for _, q := range b.peers(r) {
		if b.o.host(q) == b.o.host(r) {
			out = append(out, q)
		}
	}
	return out
}
