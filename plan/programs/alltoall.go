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
	Doc:     "Every rank sends part q as packets to rank q. One hop; (n-1)/n·S bytes of payload out of each rank.",
	packets: true,
	write:   func(b *builder) { b.sendPackets(func(r, q int) dsl.Chunk { return b.in(r).Chunk(q) }) },
})

var _ = register(&Program{
	Name: "alltoall_2d", Collective: plan.AllToAll, MultiHost: true, Hierarchical: true, Instances: 1,
	Doc: "1. within the host, the neighbour with the target's local rank gets the parts for that rank on all hosts; " +
		"2. it sends one message to each host, along its rail. With g ranks a host, h hosts: (g-1)/g·S bytes by memory, " +
		"(h-1)/h·S by port in h-1 messages out of each rank, instead of g·(h-1), for each instance: one for small " +
		"messages, up to 16 for " +
		"large ones. In place parts arrive in scratch.",
	write: func(b *builder) {
		n, g, hosts, tb := b.o.Ranks, b.o.perHost(), b.o.Hosts, dsl.TB(0)
		// Chunk h·g+l of gathered holds the part of local rank l for this local rank on host h.
		gathered, at := b.scratch(n), b.out
		if b.o.InPlace {
			arrived := b.scratch(n)
			at = func(r int) *dsl.Buffer { return arrived[r] }
		}
		f := newRails(b)
		for r := range n {
			host, l, links, locals, remotes := b.o.host(r), r%g, f.links[r], f.locals[r], f.remotes[r]
			toAll(link.Ready, links, remotes, tb)
			enter(links, locals, tb)
			for _, q := range locals {
				links[q].Put(at(q).Chunk(r), b.in(r).Chunk(q), tb)
				for k := 1; k < hosts; k++ { // every rank starts with its own host
					h := (host + k) % hosts
					links[q].Put(gathered[q].Chunk(h*g+l), b.in(r).Chunk(h*g+q%g), tb)
				}
			}
			toAll(link.Signal, links, locals, tb)
			for _, q := range remotes {
				b.Rank(r).Copy(gathered[r].Chunk(b.o.host(q)*g+l), b.in(r).Chunk(q), tb)
			}
			copyOwn(b.Rank(r), at(r).Chunk(r), b.in(r).Chunk(r), tb)
			toAll(link.Wait, links, locals, tb)
			for _, q := range remotes {
				links[q].AwaitReady(tb)
				h := b.o.host(q)
				links[q].Send(at(q).Slice(host*g, (host+1)*g), gathered[r].Slice(h*g, (h+1)*g), tb)
			}
			toAll(link.Wait, links, remotes, tb)
			toAll(link.Drain, links, remotes, tb)
			if b.o.InPlace {
				b.Rank(r).Copy(b.out(r).All(), at(r).All(), tb)
			}
		}
	},
})
