package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

func allReduceSimple(o Options) dsl.AlgoSpec {
	return dsl.AlgoSpec{Collective: dsl.AllReduce(o.Ranks, 1, o.InPlace)}
}

var _ = register(&Program{
	Name: "allreduce_direct", Collective: plan.AllReduce, Instances: 8,
	Doc: "Rank r loads chunk r of every peer, adds, and stores the sum to every peer: two-shot without scratch. " +
		"2·(n-1)/n·S bytes out of each rank, half of them as loads.",
	spec: allReduceSimple,
	write: func(b *builder) {
		mesh := b.mesh()
		for r := range b.o.Ranks {
			tb, peers, out := dsl.TB(0), b.peers(r), b.out(r)
			enter(mesh[r], peers, tb)
			b.pullReduce(mesh[r], out.Chunk(r), b.in(r).Chunk(r), peers, func(q int) dsl.Chunk { return b.in(q).Chunk(r) }, tb)
			for _, q := range peers {
				mesh[r][q].mem.Put(b.out(q).Chunk(r), out.Chunk(r), tb)
			}
			leave(mesh[r], peers, tb)
		}
	},
})

var _ = register(&Program{
	Name: "allreduce_switch", Collective: plan.AllReduce, Instances: 8,
	Doc: "Rank r reduces chunk r over the group and stores the sum to the group through a switch channel. " +
		"With multicast (n+1)/n·S bytes out of each rank, without it as allreduce_direct.",
	spec: func(o Options) dsl.AlgoSpec {
		s := allReduceSimple(o)
		s.Tags = map[string]int{"nvls": 1}
		return s
	},
	write: func(b *builder) {
		n := b.o.Ranks
		all := make([]int, n)
		for r := range all {
			all[r] = r
		}
		reduce := b.SwitchChannel(all, dsl.Input)
		store := reduce
		if !b.o.InPlace {
			store = b.SwitchChannel(all, dsl.Output)
		}
		mesh := b.mesh()
		for r := range n {
			tb := dsl.TB(0)
			enter(mesh[r], b.peers(r), tb)
			reduce.AtRank(r).Reduce(r, 1, b.out(r).Chunk(r), tb, b.op())
			store.AtRank(r).Broadcast(b.out(r).Chunk(r), r, 1, tb)
			leave(mesh[r], b.peers(r), tb)
		}
	},
})
