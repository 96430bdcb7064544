package programs

import (
	"github.com/goccl/goccl/dsl"
	"github.com/goccl/goccl/plan"
)

var _ = register(&Program{
	Name: "allreduce_hierarchical", Collective: plan.AllReduce, MultiHost: true, Instances: 4,
	Doc: "1. within the host, local rank l adds part l of everyone; 2. ranks of equal l on all hosts all-reduce part l, two-shot; " +
		"3. within the host, part l goes to everyone. With g ranks a host, h hosts: 2·(g-1)/g·S bytes by memory, 2·(h-1)/h·S/g by port out of each rank.",
	spec: allReduceSimple,
	write: func(b *builder) {
		n, g, hosts := b.o.Ranks, b.o.perHost(), b.o.Hosts
		links := make([][]link, n)
		var locals, remotes [][]int // peers of a rank: on its host, and of its local rank on the others
		for r := range n {
			links[r] = make([]link, n)
			local := b.memoryPeers(r)
			var remote []int
			for k := 1; k < hosts; k++ {
				remote = append(remote, (r+k*g)%n)
			}
			for _, q := range append(append([]int(nil), local...), remote...) {
				links[r][q] = b.link(q, r)
			}
			locals, remotes = append(locals, local), append(remotes, remote)
		}
		var slots []*dsl.Buffer
		if hosts > 1 {
			slots = b.scratch(hosts) // by host: its sum of this rank's chunk
		}
		tb := dsl.TB(0)
		for r := range n {
			host, l := b.o.host(r), r%g
			rank, out := b.Rank(r), b.out(r)
			part := func(buf *dsl.Buffer) dsl.Chunk { return buf.Slice(l*hosts, (l+1)*hosts) }
			mine := out.Chunk(l*hosts + host)

			for _, q := range remotes[r] {
				links[r][q].ready(tb)
			}
			enter(links[r], locals[r], tb)
			b.pullReduce(links[r], part(out), part(b.in(r)), locals[r], func(q int) dsl.Chunk { return part(b.in(q)) }, tb)

			var arrived []dsl.Chunk
			for _, q := range remotes[r] {
				links[r][q].awaitReady(tb)
			}
			sendAll(toward(links[r]), remotes[r], func(q int) dsl.Chunk { return slots[q].Chunk(host) },
				func(q int) dsl.Chunk { return out.Chunk(l*hosts + b.o.host(q)) }, tb)
			for _, q := range remotes[r] {
				links[r][q].wait(tb)
				arrived = append(arrived, slots[r].Chunk(b.o.host(q)))
			}
			b.reduceLocal(rank, mine, mine, arrived, tb)
			sendAll(toward(links[r]), remotes[r], func(q int) dsl.Chunk { return b.out(q).Chunk(l*hosts + host) }, always(mine), tb)
			for _, q := range remotes[r] {
				links[r][q].wait(tb)
			}
			for _, q := range locals[r] {
				links[r][q].mem.Put(part(b.out(q)), part(out), tb)
			}
			leave(links[r], locals[r], tb)
			for _, q := range remotes[r] {
				links[r][q].drain(tb)
			}
		}
	},
})
