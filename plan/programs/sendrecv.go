package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

// shift opens, for every rank, the links to the next rank and to the previous one. With two ranks these are the same.
func (b *builder) shift() (next, prev []link) {
	n := b.o.Ranks
	next, prev = make([]link, n), make([]link, n)
	for r := range n {
		next[r] = b.link((r+1)%n, r)
		prev[r] = next[r]
		if n > 2 {
			prev[r] = b.link((r+n-1)%n, r)
		}
	}
	return next, prev
}

var _ = register(&Program{
	Name: "sendrecv_direct", Collective: plan.SendRecv, MultiHost: true, Instances: 16,
	Doc: "Every rank stores its input to the next. One hop; S bytes out of each rank. In place the data arrives in " +
		"scratch first.",
	spec: func(o Options) dsl.AlgoSpec { return dsl.AlgoSpec{Collective: dsl.SendRecv(o.Ranks, 1, o.InPlace)} },
	write: func(b *builder) {
		n, tb := b.o.Ranks, dsl.TB(0)
		next, prev := b.shift()
		at := b.out
		if b.o.InPlace {
			staging := b.scratch(1)
			at = func(r int) *dsl.Buffer { return staging[r] }
		}
		for r := range n {
			prev[r].ready(tb)
			next[r].awaitReady(tb)
			next[r].send(at((r+1)%n).Chunk(0), b.in(r).Chunk(0), tb)
			prev[r].wait(tb)
			next[r].drain(tb)
			copyOwn(b.Rank(r), b.out(r).Chunk(0), at(r).Chunk(0), tb)
		}
	},
})

var _ = register(&Program{
	Name: "sendrecv_ll", Collective: plan.SendRecv, Instances: 4, MaxSize: 1 << 20,
	Doc: "Every rank sends packets to the next one, once that has signalled that it is ready. Two flights, one of " +
		"them empty.",
	spec: func(o Options) dsl.AlgoSpec {
		return dsl.AlgoSpec{Collective: dsl.SendRecv(o.Ranks, 1, o.InPlace), Protocol: dsl.LL, UseDoubleScratchBuffer: true}
	},
	write: func(b *builder) {
		n, tb := b.o.Ranks, dsl.TB(0)
		next, prev := b.shift()
		scratch := b.scratch(1)
		for r := range n {
			prev[r].ready(tb)
			next[r].awaitReady(tb)
			next[r].mem.PutPackets(scratch[(r+1)%n].Chunk(0), b.in(r).Chunk(0), tb)
			b.Rank(r).UnpackPackets(b.out(r).Chunk(0), scratch[r].Chunk(0), tb)
		}
	},
})
