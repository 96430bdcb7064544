package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

var _ = register(&Program{
	Name: "allgather_direct", Collective: plan.AllGather, MultiHost: true, Instances: 4, Wide: true,
	Doc: "Every rank stores its input to every other, one thread block per peer. One hop; (n-1)·S bytes out of each " +
		"rank with input S.",
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
	l.Ready(tb)
	l.AwaitReady(tb)
	l.Send(dst, src, tb)
	l.Wait(tb)
	l.Drain(tb)
}

var _ = register(&Program{
	Name: "allgather_ring", Collective: plan.AllGather, MultiHost: true, Instances: 4, Wide: true,
	Doc: "Every rank stores to the next: first its input, then the chunks of the rank before, straight into " +
		"outputs. " +
		"n-1 hops; (n-1)·S bytes out of each rank with input S, to one neighbour.",
	write: func(b *builder) {
		n := b.o.Ranks
		next, prev := b.shift()
		for r := range b.each() {
			tb, in, out, right := dsl.TB(0), b.in(r), b.out(r), b.out((r+1)%n)
			prev[r].Ready(tb)
			next[r].AwaitReady(tb)
			next[r].Send(right.Chunk(r), in.Chunk(0), tb)
			for s := 1; s < n-1; s++ {
				c := (r - s + n) % n
				prev[r].Wait(tb)
				next[r].Send(right.Chunk(c), out.Chunk(c), tb)
			}
			prev[r].Wait(tb)
			next[r].Drain(tb)
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
	packets: true,
	write:   func(b *builder) { b.sendPackets(func(r, q int) dsl.Chunk { return b.in(r).Chunk(0) }) },
})

// sendPackets sends the chunks part(r, q) of every rank r as packets to rank q, at chunk r of the output.
func (b *builder) sendPackets(part func(r, q int) dsl.Chunk) {
	b.packetBlocks()
	mesh, scratch := b.mesh(), b.scratch(b.o.Ranks)
	for r := range b.o.Ranks {
		for _, q := range b.peers(r) {
			mesh[r][q].PutPackets(scratch[q].Chunk(r), part(r, q), b.block(r, q))
		}
		copyOwn(b.Rank(r), b.out(r).Chunk(r), part(r, r), b.allBlocks())
		for _, q := range b.peers(r) {
			b.Rank(r).UnpackPackets(b.out(r).Chunk(q), scratch[r].Chunk(q), b.block(r, q))
		}
	}
}

// exchangeParts sends chunk q of the input of rank r as packets to every rank q, and returns the packets of the peers.
func (b *builder) exchangeParts(r int, mesh []link, scratch []*dsl.Buffer) (packets []dsl.Chunk) {
	for _, q := range b.peers(r) {
		mesh[q].PutPackets(scratch[q].Chunk(r), b.in(r).Chunk(q), b.block(r, q))
		packets = append(packets, scratch[r].Chunk(q))
	}
	return packets
}

var _ = register(&Program{
	Name: "reducescatter_direct", Collective: plan.ReduceScatter, Instances: 8,
	Doc: "Rank r loads chunk r of every peer and adds. One hop; (n-1)·S bytes into each rank with output S, as loads.",
	write: func(b *builder) {
		mesh := b.mesh()
		for r := range b.o.Ranks {
			tb, peers := dsl.TB(0), b.peers(r)
			enter(mesh[r], peers, tb)
			b.pullReduce(mesh[r], b.out(r).Chunk(0), b.in(r).Chunk(r), peers, func(q int) dsl.Chunk { return b.in(q).Chunk(r) },
				tb)
			leave(mesh[r], peers, tb)
		}
	},
})

var _ = register(&Program{
	Name: "reducescatter_push", Collective: plan.ReduceScatter, MultiHost: true, Instances: 4,
	Doc: "Every rank stores chunk q to the scratch of rank q, one thread block per peer; then the blocks share the sum. " +
		"One hop; (n-1)·S bytes out of each rank with output S.",
	write: func(b *builder) {
		n := b.o.Ranks
		mesh, scratch := b.mesh(), b.scratch(n)
		for r := range n {
			var blocks []int
			var arrived []dsl.Chunk
			for _, q := range b.peers(r) {
				b.exchange(mesh[r][q], scratch[q].Chunk(r), b.in(r).Chunk(q), b.block(r, q))
				blocks, arrived = append(blocks, len(blocks)), append(arrived, scratch[r].Chunk(q))
			}
			b.Rank(r).Barrier(blocks...)
			b.reduceLocal(b.Rank(r), b.out(r).Chunk(0), b.in(r).Chunk(r), arrived, b.allBlocks())
		}
	},
})

var _ = register(&Program{
	Name: "reducescatter_ll", Collective: plan.ReduceScatter, Instances: 2, MaxSize: 8 << 20,
	Doc:     "As reducescatter_push, with packets: no handshake and no barrier.",
	packets: true,
	write: func(b *builder) {
		b.packetBlocks()
		mesh, scratch := b.mesh(), b.scratch(b.o.Ranks)
		for r := range b.o.Ranks {
			b.reducePackets(b.Rank(r), b.out(r).Chunk(0), b.in(r).Chunk(r), b.exchangeParts(r, mesh[r], scratch), b.allBlocks())
		}
	},
})
