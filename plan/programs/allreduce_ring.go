package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

var _ = register(&Program{
	Name: "allreduce_ring", Collective: plan.AllReduce, MultiHost: true, Instances: 8,
	Doc: "Chunk c starts at rank c+1, collects one contribution per hop and is complete at rank c; then it goes round " +
		"once more. " +
		"2·(n-1) hops; 2·(n-1)/n·S bytes out of each rank, to one neighbour.",
	spec: allReduceSimple,
	write: func(b *builder) {
		n := b.o.Ranks
		next, prev := b.shift()
		scratch := b.scratch(n)
		for r := range b.each() {
			tb, rank, in, out, right := dsl.TB(0), b.Rank(r), b.in(r), b.out(r), (r+1)%n
			prev[r].ready(tb)
			next[r].awaitReady(tb)

			first := (r + n - 1) % n
			next[r].send(scratch[right].Chunk(first), in.Chunk(first), tb)
			for s := 1; s < n-1; s++ {
				c := (r - 1 - s + 2*n) % n
				prev[r].wait(tb)
				rank.Reduce(scratch[r].Chunk(c), []dsl.Chunk{in.Chunk(c)}, tb, b.op())
				next[r].send(scratch[right].Chunk(c), scratch[r].Chunk(c), tb)
			}
			prev[r].wait(tb)
			rank.Reduce(scratch[r].Chunk(r), []dsl.Chunk{in.Chunk(r)}, dsl.Into(out.Chunk(r)), tb, b.op())
			for s := range n - 1 {
				c := (r - s + n) % n
				if s > 0 {
					prev[r].wait(tb)
				}
				next[r].send(b.out(right).Chunk(c), out.Chunk(c), tb)
			}
			prev[r].wait(tb)
			next[r].drain(tb)
		}
	},
})
