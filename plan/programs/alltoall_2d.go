package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

var _ = register(&Program{
	Name: "alltoall_2d", Collective: plan.AllToAll, MultiHost: true, Hierarchical: true, Instances: 1,
	Doc: "1. within the host, the neighbour with the target's local rank gets the parts for that rank on all hosts; " +
		"2. it sends one message to each host, along its rail. With g ranks a host, h hosts: (g-1)/g·S bytes by memory, " +
		"(h-1)/h·S by port in h-1 messages out of each rank, instead of g·(h-1), for each instance: one for small " +
		"messages, up to 16 for " +
		"large ones. In place parts arrive in scratch.",
	spec: func(o Options) dsl.AlgoSpec { return dsl.AlgoSpec{Collective: dsl.AllToAll(o.Ranks, 1, o.InPlace)} },
	write: func(b *builder) {
		n, g, hosts, tb := b.o.Ranks, b.o.perHost(), b.o.Hosts, dsl.TB(0)
		// Chunk h·g+l of gathered holds the part of local rank l for this local rank on host h.
		gathered, at := b.scratch(n), b.out
		if b.o.InPlace {
			arrived := b.scratch(n)
			at = func(r int) *dsl.Buffer { return arrived[r] }
		}
		links := make([][]link, n)
		remotes := make([][]int, n)
		for r := range n {
			links[r] = make([]link, n)
			for k := 1; k < hosts; k++ {
				remotes[r] = append(remotes[r], (r+k*g)%n)
			}
			for _, q := range append(b.memoryPeers(r), remotes[r]...) {
				links[r][q] = b.link(q, r)
			}
		}
		for r := range n {
			host, l, locals := b.o.host(r), r%g, b.memoryPeers(r)
			for _, q := range remotes[r] {
				links[r][q].ready(tb)
			}
			enter(links[r], locals, tb)
			for _, q := range locals {
				links[r][q].mem.Put(at(q).Chunk(r), b.in(r).Chunk(q), tb)
				for k := 1; k < hosts; k++ { // every rank starts with its own host
					h := (host + k) % hosts
					links[r][q].mem.Put(gathered[q].Chunk(h*g+l), b.in(r).Chunk(h*g+q%g), tb)
				}
			}
			for _, q := range locals {
				links[r][q].signal(tb)
			}
			for _, q := range remotes[r] {
				b.Rank(r).Copy(gathered[r].Chunk(b.o.host(q)*g+l), b.in(r).Chunk(q), tb)
			}
			copyOwn(b.Rank(r), at(r).Chunk(r), b.in(r).Chunk(r), tb)
			for _, q := range locals {
				links[r][q].wait(tb)
			}
			for _, q := range remotes[r] {
				links[r][q].awaitReady(tb)
				h := b.o.host(q)
				links[r][q].send(at(q).Slice(host*g, (host+1)*g), gathered[r].Slice(h*g, (h+1)*g), tb)
			}
			for _, q := range remotes[r] {
				links[r][q].wait(tb)
			}
			for _, q := range remotes[r] {
				links[r][q].drain(tb)
			}
			if b.o.InPlace {
				b.Rank(r).Copy(b.out(r).All(), at(r).All(), tb)
			}
		}
	},
})
