package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

var _ = register(&Program{
	Name: "broadcast_scatter", Collective: plan.Broadcast, MultiHost: true, Instances: 4,
	Doc: "The root scatters one chunk to each rank, which passes it to the others; block k of a rank serves its k-th " +
		"peer. Two hops; " +
		"S bytes out of the root, (n-2)/n·S out of the others.",
	parts: true,
	write: func(b *builder) {
		n, root := b.o.Ranks, b.o.Root
		mesh := b.mesh()
		for r := range n {
			in, out := b.in(r), b.out(r)
			if r == root {
				for _, q := range b.peers(r) {
					tb := b.block(r, q)
					mesh[r][q].AwaitReady(tb)
					mesh[r][q].Send(b.out(q).Chunk(q), in.Chunk(q), tb)
					// The other ranks do not forward the root's own chunk.
					mesh[r][q].Send(b.out(q).Chunk(root), in.Chunk(root), tb)
					mesh[r][q].Drain(tb)
				}
				copyOwn(b.Rank(r), out.All(), in.All(), b.allBlocks())
				continue
			}
			// One block does the work of a rank that is not the root: each step, except the waits for the root, serves
			// several peers at once.
			tb := dsl.TB(0)
			var others []int
			for _, q := range b.peers(r) {
				if q != root {
					others = append(others, q)
				}
			}
			mesh[r][root].Ready(tb)
			toAll(link.Ready, mesh[r], others, tb)
			toAll(link.AwaitReady, mesh[r], others, tb)
			mesh[r][root].Wait(tb)
			sendAll(toward(mesh[r]), others, func(q int) dsl.Chunk { return b.out(q).Chunk(r) }, always(out.Chunk(r)), tb)
			mesh[r][root].Wait(tb)
			toAll(link.Wait, mesh[r], others, tb)
			toAll(link.Drain, mesh[r], others, tb)
		}
	},
})

var _ = register(&Program{
	Name: "broadcast_ll", Collective: plan.Broadcast, MaxSize: 1 << 20,
	Doc: "The root sends packets to every rank that has signalled that it is ready. Two flights, one of them empty; " +
		"(n-1)·S bytes of payload out of the root.",
	packets: true,
	write: func(b *builder) {
		root := b.o.Root
		mesh, scratch := b.mesh(), b.scratch(1)
		for _, q := range b.peers(root) {
			// A ready signal means that the packets of the launch before last have been unpacked, so this half may be
			// written again.
			mesh[q][root].Ready(dsl.TB(0))
			b.Rank(q).UnpackPackets(b.out(q).Chunk(0), scratch[q].Chunk(0), dsl.TB(0))
			mesh[root][q].AwaitReady(b.block(root, q))
			mesh[root][q].PutPackets(scratch[q].Chunk(0), b.in(root).Chunk(0), b.block(root, q))
		}
		copyOwn(b.Rank(root), b.out(root).Chunk(0), b.in(root).Chunk(0), b.allBlocks())
	},
})

var _ = register(&Program{
	Name: "reduce_direct", Collective: plan.Reduce, Instances: 8,
	Doc: "Rank r adds chunk r of everyone by loads and stores it to the root. Two hops; (n-1)/n·S bytes out of each " +
		"rank, S into the root.",
	parts: true,
	write: func(b *builder) {
		n, root := b.o.Ranks, b.o.Root
		mesh, sums := b.mesh(), b.scratch(1)
		for r := range n {
			tb, peers := dsl.TB(0), b.peers(r)
			enter(mesh[r], peers, tb)
			sum := sums[r].Chunk(0)
			if r == root {
				sum = b.out(r).Chunk(r)
			}
			b.pullReduce(mesh[r], sum, b.in(r).Chunk(r), peers, func(q int) dsl.Chunk { return b.in(q).Chunk(r) }, tb)
			if r != root {
				mesh[r][root].Put(b.out(root).Chunk(r), sum, tb)
			}
			leave(mesh[r], peers, tb)
		}
	},
})

var _ = register(&Program{
	Name: "reduce_push", Collective: plan.Reduce, MultiHost: true, Instances: 4,
	Doc: "Every rank stores chunk q to the scratch of rank q, which adds and stores the sum to the root. Two hops; S " +
		"bytes out of each rank.",
	parts: true,
	write: func(b *builder) {
		n, root := b.o.Ranks, b.o.Root
		mesh, arrived, sums := b.mesh(), b.scratch(n), b.scratch(1)
		tb := dsl.TB(0)
		for r := range n {
			peers := b.peers(r)
			enter(mesh[r], peers, tb)
			sendAll(toward(mesh[r]), peers, func(q int) dsl.Chunk { return arrived[q].Chunk(r) },
				func(q int) dsl.Chunk { return b.in(r).Chunk(q) }, tb)
			var others []dsl.Chunk
			for _, q := range peers {
				mesh[r][q].Wait(tb)
				others = append(others, arrived[r].Chunk(q))
			}
			sum := sums[r].Chunk(0)
			if r == root {
				sum = b.out(r).Chunk(r)
			}
			b.reduceLocal(b.Rank(r), sum, b.in(r).Chunk(r), others, tb)
			if r != root {
				mesh[r][root].Send(b.out(root).Chunk(r), sum, tb)
			} else {
				toAll(link.Wait, mesh[r], peers, tb)
			}
			toAll(link.Drain, mesh[r], peers, tb)
		}
	},
})

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
	write: func(b *builder) {
		n, tb := b.o.Ranks, dsl.TB(0)
		next, prev := b.shift()
		at := b.out
		if b.o.InPlace {
			staging := b.scratch(1)
			at = func(r int) *dsl.Buffer { return staging[r] }
		}
		for r := range n {
			prev[r].Ready(tb)
			next[r].AwaitReady(tb)
			next[r].Send(at((r+1)%n).Chunk(0), b.in(r).Chunk(0), tb)
			prev[r].Wait(tb)
			next[r].Drain(tb)
			copyOwn(b.Rank(r), b.out(r).Chunk(0), at(r).Chunk(0), tb)
		}
	},
})

var _ = register(&Program{
	Name: "sendrecv_ll", Collective: plan.SendRecv, Instances: 4, MaxSize: 1 << 20,
	Doc: "Every rank sends packets to the next one, once that has signalled that it is ready. Two flights, one of " +
		"them empty.",
	packets: true,
	write: func(b *builder) {
		n, tb := b.o.Ranks, dsl.TB(0)
		next, prev := b.shift()
		scratch := b.scratch(1)
		for r := range n {
			prev[r].Ready(tb)
			next[r].AwaitReady(tb)
			next[r].PutPackets(scratch[(r+1)%n].Chunk(0), b.in(r).Chunk(0), tb)
			b.Rank(r).UnpackPackets(b.out(r).Chunk(0), scratch[r].Chunk(0), tb)
		}
	},
})
