package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

// rails are the links of programs in which ranks exchange data with the ranks of their host and of their rail. A rail
// is the ranks of equal local rank, one per host.
type rails struct {
	*builder
	links           [][]link // by rank
	locals, remotes [][]int  // peers of a rank, starting after it
}

func newRails(b *builder) *rails {
	f := &rails{builder: b}
	for r := range b.o.Ranks {
		locals, remotes := b.memoryPeers(r), b.railPeers(r)
		f.links = append(f.links, b.links(r, locals, remotes))
		f.locals, f.remotes = append(f.locals, locals), append(f.remotes, remotes)
	}
	return f
}

// enter performs the entry handshake with all peers. The peers on other hosts are asked first, because they answer
// last.
func (f *rails) enter(r int, tb dsl.Option) {
	toAll(link.Ready, f.links[r], f.remotes[r], tb)
	enter(f.links[r], f.locals[r], tb)
	toAll(link.AwaitReady, f.links[r], f.remotes[r], tb)
}

var _ = register(&Program{
	Name: "allgather_hierarchical", Collective: plan.AllGather, MultiHost: true, Hierarchical: true, Instances: 4,
	Doc: "Every rank sends its input to the ranks of equal local rank on the other hosts, and passes it and what comes " +
		"from them to the ranks of its host. With g ranks a host, h hosts: (h-1)·S bytes by port out of each rank with " +
		"input S, (g-1)·h·S by memory.",
	write: func(b *builder) {
		f, tb := newRails(b), dsl.TB(0)
		for r := range b.each() {
			links, in, out := f.links[r], b.in(r).Chunk(0), b.out(r)
			f.enter(r, tb)
			for _, q := range f.remotes[r] {
				links[q].Send(b.out(q).Chunk(r), in, tb)
			}
			copyOwn(b.Rank(r), out.Chunk(r), in, tb)
			pass := func(c int, src dsl.Chunk) {
				for _, q := range f.locals[r] {
					links[q].Put(b.out(q).Chunk(c), src, tb)
				}
			}
			pass(r, in)
			for k := len(f.remotes[r]) - 1; k >= 0; k-- { // the rank that has sent to r first
				q := f.remotes[r][k]
				links[q].Wait(tb)
				pass(q, out.Chunk(q))
			}
			leave(links, f.locals[r], tb)
			toAll(link.Drain, links, f.remotes[r], tb)
		}
	},
})

var _ = register(&Program{
	Name: "reducescatter_hierarchical", Collective: plan.ReduceScatter, MultiHost: true, Hierarchical: true, Instances: 4,
	Doc: "For each host, every rank adds what its host has for the rank of equal local rank there, by loads, and sends " +
		"the sum to it, which adds the sums of all hosts. With g ranks a host, h hosts: (g-1)·h·S bytes by memory into " +
		"each rank with output S, (h-1)·S by port out of it.",
	write: func(b *builder) {
		f, tb := newRails(b), dsl.TB(0)
		sums, arrived := b.scratch(b.o.Hosts), b.scratch(b.o.Hosts)
		for r := range b.each() {
			links, host := f.links[r], b.o.host(r)
			f.enter(r, tb)
			// sum returns what the ranks of this host have for rank q.
			sum := func(q int) dsl.Chunk {
				if len(f.locals[r]) == 0 {
					return b.in(r).Chunk(q)
				}
				s := sums[r].Chunk(b.o.host(q))
				b.pullReduce(links, s, b.in(r).Chunk(q), f.locals[r], func(p int) dsl.Chunk { return b.in(p).Chunk(q) }, tb)
				return s
			}
			for _, q := range f.remotes[r] {
				links[q].Send(arrived[q].Chunk(host), sum(q), tb)
			}
			own := sum(r)
			var others []dsl.Chunk
			for k := len(f.remotes[r]) - 1; k >= 0; k-- {
				q := f.remotes[r][k]
				links[q].Wait(tb)
				others = append(others, arrived[r].Chunk(b.o.host(q)))
			}
			if len(others) == 0 {
				b.Rank(r).Copy(b.out(r).Chunk(0), own, tb)
			}
			b.reduceLocal(b.Rank(r), b.out(r).Chunk(0), own, others, tb)
			leave(links, f.locals[r], tb)
			toAll(link.Drain, links, f.remotes[r], tb)
		}
	},
})

var _ = register(&Program{
	Name: "allreduce_hierarchical", Collective: plan.AllReduce, MultiHost: true, Hierarchical: true, Instances: 4,
	Doc: "1. within the host, local rank l adds part l of everyone; 2. ranks of equal l on all hosts all-reduce part " +
		"l, two-shot on up to " +
		"8 hosts, by recursive halving and doubling on more when their number is a power of two; 3. within the host, part " +
		"l goes to everyone. " +
		"With g ranks a host, h hosts: 2·(g-1)/g·S bytes by memory, 2·(h-1)/h·S/g by port out of each rank.",
	// Instances are chunks here, not replicas: halving needs ranges of chunks of many lengths, which replicas cannot
	// share.
	spec: func(o Options) dsl.AlgoSpec {
		return dsl.AlgoSpec{Collective: dsl.AllReduce(o.Ranks, o.Instances, o.InPlace), Instances: 1}
	},
	write: func(b *builder) {
		h := newHierarchy(b)
		for block := range b.o.Instances {
			for r := range b.each() {
				h.rank(r, block)
			}
		}
	},
})

// maxDirectHosts bounds the direct exchange: with more hosts, if their number is a power of two, ranks use halving.
// Otherwise every rank sends to its counterparts on all other hosts.
const maxDirectHosts = 8

// hierarchy is one all-reduce over hosts. Part l of the buffer is divided among blocks, and the share of a block among
// hosts: a range of one chunk per host.
type hierarchy struct {
	*builder
	perHost, hosts int
	halving        bool
	links          [][][]link // by block, rank and peer
	locals         [][]int    // peers of a rank on its host
	remotes        [][]int    // ranks with the same local rank on other hosts that it exchanges data with, in order
	slots          []*dsl.Buffer
}

func newHierarchy(b *builder) *hierarchy {
	n := b.o.Ranks
	h := &hierarchy{builder: b, perHost: b.o.perHost(), hosts: b.o.Hosts}
	h.halving = h.hosts > maxDirectHosts && h.hosts&(h.hosts-1) == 0
	for r := range n {
		remote := b.railPeers(r)
		if h.halving {
			remote = nil
			for d := h.hosts / 2; d > 0; d /= 2 {
				remote = append(remote, h.counterpart(r, b.o.host(r)^d))
			}
		}
		h.locals, h.remotes = append(h.locals, b.memoryPeers(r)), append(h.remotes, remote)
	}
	for range b.o.Instances {
		byRank := make([][]link, n)
		for r := range n {
			byRank[r] = b.links(r, h.locals[r], h.remotes[r])
		}
		h.links = append(h.links, byRank)
	}
	if h.hosts > 1 {
		h.slots = b.scratch(h.hosts * b.o.Instances)
	}
	return h
}

// counterpart returns the rank on a host that has r's local rank.
func (h *hierarchy) counterpart(r, host int) int { return host*h.perHost + r%h.perHost }

func (h *hierarchy) rank(r, block int) {
	tb, links, l := dsl.TB(block), h.links[block][r], r%h.perHost
	// run returns chunks [from, to) of a block's share of part l.
	run := func(buf *dsl.Buffer, from, to int) dsl.Chunk {
		start := (l*h.o.Instances + block) * h.hosts
		return buf.Slice(start+from, start+to)
	}
	share := func(buf *dsl.Buffer) dsl.Chunk { return run(buf, 0, h.hosts) }
	toAll(link.Ready, links, h.remotes[r], tb)
	enter(links, h.locals[r], tb)
	h.pullReduce(links, share(h.out(r)), share(h.in(r)), h.locals[r], func(q int) dsl.Chunk { return share(h.in(q)) }, tb)
	toAll(link.AwaitReady, links, h.remotes[r], tb)
	slot := func(q, from, to int) dsl.Chunk { return h.slots[q].Slice(block*h.hosts+from, block*h.hosts+to) }
	if h.halving {
		h.halve(r, links, run, slot, tb)
	} else {
		h.direct(r, links, run, slot, tb)
	}
	for _, q := range h.locals[r] {
		links[q].Put(share(h.out(q)), share(h.out(r)), tb)
	}
	leave(links, h.locals[r], tb)
	toAll(link.Drain, links, h.remotes[r], tb)
}

// direct sends the chunk of each host to that host, which reduces it and sends the result back.
func (h *hierarchy) direct(r int, links []link, run func(*dsl.Buffer, int, int) dsl.Chunk,
	slot func(q, from, to int) dsl.Chunk, tb dsl.Option) {
	host, peers := h.o.host(r), h.remotes[r]
	at := func(rank, host int) dsl.Chunk { return run(h.out(rank), host, host+1) }
	sendAll(toward(links), peers, func(q int) dsl.Chunk { return slot(q, host, host+1) },
		func(q int) dsl.Chunk { return at(r, h.o.host(q)) }, tb)
	var arrived []dsl.Chunk
	for _, q := range peers {
		links[q].Wait(tb)
		arrived = append(arrived, slot(r, h.o.host(q), h.o.host(q)+1))
	}
	h.reduceLocal(h.Rank(r), at(r, host), at(r, host), arrived, tb)
	sendAll(toward(links), peers, func(q int) dsl.Chunk { return at(q, host) }, always(at(r, host)), tb)
	toAll(link.Wait, links, peers, tb)
}

// halve performs recursive halving: at each step a rank keeps the half of its range that contains its own host's chunk,
// and exchanges the other half with a counterpart at half the distance of the previous step. Then the steps run
// backwards to gather. Each step has separate slots.
func (h *hierarchy) halve(r int, links []link, run func(*dsl.Buffer, int, int) dsl.Chunk,
	slot func(q, from, to int) dsl.Chunk, tb dsl.Option) {
	host := h.o.host(r)
	for d := h.hosts / 2; d > 0; d /= 2 {
		q := h.counterpart(r, host^d)
		keep, give := host&^(d-1), host&^(d-1)^d
		links[q].Send(slot(q, h.hosts-2*d, h.hosts-d), run(h.out(r), give, give+d), tb)
		links[q].Wait(tb)
		mine := run(h.out(r), keep, keep+d)
		h.reduceLocal(h.Rank(r), mine, mine, []dsl.Chunk{slot(r, h.hosts-2*d, h.hosts-d)}, tb)
	}
	for d := 1; d < h.hosts; d *= 2 {
		q := h.counterpart(r, host^d)
		have := host &^ (d - 1)
		links[q].Send(run(h.out(q), have, have+d), run(h.out(r), have, have+d), tb)
		links[q].Wait(tb)
	}
}
