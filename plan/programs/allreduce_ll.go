package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

func allReduceLL(o Options) dsl.AlgoSpec {
	return dsl.AlgoSpec{Collective: dsl.AllReduce(o.Ranks, 1, o.InPlace), Protocol: dsl.LL, UseDoubleScratchBuffer: true}
}

var _ = register(&Program{
	Name: "allreduce_oneshot_ll", Collective: plan.AllReduce, Instances: 2, Wide: true, MaxSize: 1 << 20,
	Doc: "Every rank sends its input as packets to every other and adds all of them in rank order. One hop; (n-1)·S " +
		"bytes of payload out of each rank.",
	spec: allReduceLL,
	write: func(b *builder) {
		n := b.o.Ranks
		mesh, scratch := b.mesh(), b.scratch(n*n)
		blocks := min(n, 8)
		for r := range n {
			rank := b.Rank(r)
			for c := range blocks { // block c owns chunks [from, to)
				tb, from, to := dsl.TB(c), n*c/blocks, n*(c+1)/blocks
				in, out := b.in(r).Slice(from, to), b.out(r).Slice(from, to)
				slot := func(at, of int) dsl.Chunk { return scratch[at].Slice(of*n+from, of*n+to) }
				for _, q := range b.peers(r) {
					mesh[r][q].mem.PutPackets(slot(q, r), in, tb)
				}
				// Reduce in rank order: rank 0's data first, then the others'. A rank other than 0 also reads its own
				// data from packets, because in place its input is overwritten when rank 0's data is unpacked.
				var packets []dsl.Chunk
				for q := 1; q < n; q++ {
					packets = append(packets, slot(r, q))
				}
				if r == 0 {
					b.reducePackets(rank, out, in, packets, tb)
					continue
				}
				rank.CopyPackets(slot(r, r), in, tb)
				rank.UnpackPackets(out, slot(r, 0), tb)
				b.reducePackets(rank, out, out, packets, tb)
			}
		}
	},
})

var _ = register(&Program{
	Name: "allreduce_twoshot_ll", Collective: plan.AllReduce, Instances: 4, Wide: true, MaxSize: 8 << 20,
	Doc: "Rank r adds chunk r of everyone from packets and sends the sum as packets. Two hops; 2·(n-1)/n·S bytes of " +
		"payload out of each rank.",
	spec: allReduceLL,
	write: func(b *builder) {
		b.packetBlocks()
		n := b.o.Ranks
		mesh, parts, sums := b.mesh(), b.scratch(n), b.scratch(n)
		for r := range n {
			rank, in, out := b.Rank(r), b.in(r), b.out(r)
			for _, q := range b.peers(r) {
				mesh[r][q].mem.PutPackets(parts[q].Chunk(r), in.Chunk(q), b.block(r, q))
			}
			// All blocks share the reduction of chunk r and its distribution.
			var packets []dsl.Chunk
			for _, q := range b.peers(r) {
				packets = append(packets, parts[r].Chunk(q))
			}
			all := b.allBlocks()
			b.reducePackets(rank, out.Chunk(r), in.Chunk(r), packets, all)
			for _, q := range b.peers(r) {
				mesh[r][q].mem.PutPackets(sums[q].Chunk(r), out.Chunk(r), all)
			}
			for _, q := range b.peers(r) {
				rank.UnpackPackets(out.Chunk(q), sums[r].Chunk(q), b.block(r, q))
			}
		}
	},
})
