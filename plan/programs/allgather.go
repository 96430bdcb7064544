package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

var _ = register(&Program{
	Name: "allgather_direct", Collective: plan.AllGather, MultiHost: true, Instances: 4, Wide: true,
	Doc: "Every rank stores its input to every other, one thread block per peer. One hop; (n-1)·S bytes out of each " +
		"rank with input S.",
	spec: func(o Options) dsl.AlgoSpec { return dsl.AlgoSpec{Collective: dsl.AllGather(o.Ranks, 1, o.InPlace)} },
	write: func(b *builder) {
		mesh := b.mesh()
		for r := range b.o.Ranks {
			copyOwn(b.Rank(r), b.out(r).Chunk(r), b.in(r).Chunk(0), b.allBlocks())
			for _, q := range b.peers(r) {
				b.exchange(mesh[r][q], b.out(q).Chunk(r), b.in(r).Chunk(0), b.block(r, q))
			}
		}
	},
})

// exchange sends src to dst and waits for the peer's data, with an entry handshake.
func (b *builder) exchange(l link, dst, src dsl.Chunk, tb dsl.Option) {
	l.ready(tb)
	l.awaitReady(tb)
	l.send(dst, src, tb)
	l.wait(tb)
	l.drain(tb)
}

var _ = register(&Program{
	Name: "allgather_ring", Collective: plan.AllGather, MultiHost: true, Instances: 4, Wide: true,
	Doc: "Every rank stores to the next: first its input, then the chunks of the rank before, straight into " +
		"outputs. " +
		"n-1 hops; (n-1)·S bytes out of each rank with input S, to one neighbour.",
	spec: func(o Options) dsl.AlgoSpec { return dsl.AlgoSpec{Collective: dsl.AllGather(o.Ranks, 1, o.InPlace)} },
	write: func(b *builder) {
		n := b.o.Ranks
		next, prev := b.shift()
		for r := range b.each() {
			tb, in, out, right := dsl.TB(0), b.in(r), b.out(r), b.out((r+1)%n)
			prev[r].ready(tb)
			next[r].awaitReady(tb)
			next[r].send(right.Chunk(r), in.Chunk(0), tb)
			for s := 1; s < n-1; s++ {
				c := (r - s + n) % n
				prev[r].wait(tb)
				next[r].send(right.Chunk(c), out.Chunk(c), tb)
			}
			prev[r].wait(tb)
			next[r].drain(tb)
			// On the ring's block this copy would leave the links of all ranks idle at the same time. No other
			// operation accesses the chunk.
			copyOwn(b.Rank(r), out.Chunk(r), in.Chunk(0), dsl.TB(1))
		}
	},
})

var _ = register(&Program{
	Name: "allgather_ll", Collective: plan.AllGather, Instances: 2, Wide: true, MaxSize: 8 << 20,
	Doc: "Every rank sends its input as packets to every other. One hop; (n-1)·S bytes of payload out of each rank " +
		"with input S.",
	spec: func(o Options) dsl.AlgoSpec {
		return dsl.AlgoSpec{Collective: dsl.AllGather(o.Ranks, 1, o.InPlace), Protocol: dsl.LL, UseDoubleScratchBuffer: true}
	},
	write: func(b *builder) {
		b.packetBlocks()
		mesh, scratch := b.mesh(), b.scratch(b.o.Ranks)
		for r := range b.o.Ranks {
			for _, q := range b.peers(r) {
				mesh[r][q].mem.PutPackets(scratch[q].Chunk(r), b.in(r).Chunk(0), b.block(r, q))
			}
			copyOwn(b.Rank(r), b.out(r).Chunk(r), b.in(r).Chunk(0), b.allBlocks())
			for _, q := range b.peers(r) {
				b.Rank(r).UnpackPackets(b.out(r).Chunk(q), scratch[r].Chunk(q), b.block(r, q))
			}
		}
	},
})
