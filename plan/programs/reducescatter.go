package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

func reduceScatter(o Options) dsl.AlgoSpec {
	return dsl.AlgoSpec{Collective: dsl.ReduceScatter(o.Ranks, 1, o.InPlace)}
}

var _ = register(&Program{
	Name: "reducescatter_direct", Collective: plan.ReduceScatter, Instances: 8,
	Doc:  "Rank r loads chunk r of every peer and adds. One hop; (n-1)·S bytes into each rank with output S, as loads.",
	spec: reduceScatter,
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
	spec: reduceScatter,
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
	Doc: "As reducescatter_push, with packets: no handshake and no barrier.",
	spec: func(o Options) dsl.AlgoSpec {
		s := reduceScatter(o)
		s.Protocol, s.UseDoubleScratchBuffer = dsl.LL, true
		return s
	},
	write: func(b *builder) {
		b.packetBlocks()
		mesh, scratch := b.mesh(), b.scratch(b.o.Ranks)
		for r := range b.o.Ranks {
			var packets []dsl.Chunk
			for _, q := range b.peers(r) {
				mesh[r][q].mem.PutPackets(scratch[q].Chunk(r), b.in(r).Chunk(q), b.block(r, q))
				packets = append(packets, scratch[r].Chunk(q))
			}
			b.reducePackets(b.Rank(r), b.out(r).Chunk(0), b.in(r).Chunk(r), packets, b.allBlocks())
		}
	},
})
