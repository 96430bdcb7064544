package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

var _ = register(&Program{
	Name: "alltoall_direct", Collective: plan.AllToAll, MultiHost: true, Instances: 4,
	Doc: "Every rank stores part q to rank q, one thread block per peer. One hop; (n-1)/n·S bytes out of each rank. In " +
		"place the parts " +
		"arrive in scratch, because the peer's part has to leave before ours replaces it.",
	spec: func(o Options) dsl.AlgoSpec { return dsl.AlgoSpec{Collective: dsl.AllToAll(o.Ranks, 1, o.InPlace)} },
	write: func(b *builder) {
		n := b.o.Ranks
		mesh := b.mesh()
		var staging []*dsl.Buffer
		if b.o.InPlace {
			staging = b.scratch(n)
		}
		for r := range n {
			copyOwn(b.Rank(r), b.out(r).Chunk(r), b.in(r).Chunk(r), b.allBlocks())
			for _, q := range b.peers(r) {
				tb := b.block(r, q)
				if staging == nil {
					b.exchange(mesh[r][q], b.out(q).Chunk(r), b.in(r).Chunk(q), tb)
					continue
				}
				b.exchange(mesh[r][q], staging[q].Chunk(r), b.in(r).Chunk(q), tb)
				b.Rank(r).Copy(b.out(r).Chunk(q), staging[r].Chunk(q), tb)
			}
		}
	},
})

var _ = register(&Program{
	Name: "alltoall_ll", Collective: plan.AllToAll, Instances: 2, MaxSize: 8 << 20,
	Doc: "Every rank sends part q as packets to rank q. One hop; (n-1)/n·S bytes of payload out of each rank.",
	spec: func(o Options) dsl.AlgoSpec {
		return dsl.AlgoSpec{Collective: dsl.AllToAll(o.Ranks, 1, o.InPlace), Protocol: dsl.LL, UseDoubleScratchBuffer: true}
	},
	write: func(b *builder) {
		b.packetBlocks()
		mesh, scratch := b.mesh(), b.scratch(b.o.Ranks)
		for r := range b.o.Ranks {
			for _, q := range b.peers(r) {
				mesh[r][q].mem.PutPackets(scratch[q].Chunk(r), b.in(r).Chunk(q), b.block(r, q))
			}
			copyOwn(b.Rank(r), b.out(r).Chunk(r), b.in(r).Chunk(r), b.allBlocks())
			for _, q := range b.peers(r) {
				b.Rank(r).UnpackPackets(b.out(r).Chunk(q), scratch[r].Chunk(q), b.block(r, q))
			}
		}
	},
})
