package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

var _ = register(&Program{
	Name: "allreduce_direct", Collective: plan.AllReduce, Instances: 8,
	Doc: "Rank r loads chunk r of every peer, adds, and stores the sum to every peer: two-shot without scratch. " +
		"2·(n-1)/n·S bytes out of each rank, half of them as loads.",
	write: func(b *builder) {
		mesh := b.mesh()
		for r := range b.o.Ranks {
			tb, peers, out := dsl.TB(0), b.peers(r), b.out(r)
			enter(mesh[r], peers, tb)
			b.pullReduce(mesh[r], out.Chunk(r), b.in(r).Chunk(r), peers, func(q int) dsl.Chunk { return b.in(q).Chunk(r) }, tb)
			for _, q := range peers {
				mesh[r][q].Put(b.out(q).Chunk(r), out.Chunk(r), tb)
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
		return dsl.AlgoSpec{Collective: dsl.AllReduce(o.Ranks, 1, o.InPlace), Tags: map[string]int{"nvls": 1}}
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

var _ = register(&Program{
	Name: "allreduce_oneshot_ll", Collective: plan.AllReduce, Instances: 2, Wide: true, MaxSize: 1 << 20,
	Doc: "Every rank sends its input as packets to every other and adds all of them in rank order. One hop; (n-1)·S " +
		"bytes of payload out of each rank.",
	packets: true,
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
					mesh[r][q].PutPackets(slot(q, r), in, tb)
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
	packets: true,
	write: func(b *builder) {
		b.packetBlocks()
		n := b.o.Ranks
		mesh, parts, sums := b.mesh(), b.scratch(n), b.scratch(n)
		for r := range n {
			rank, in, out := b.Rank(r), b.in(r), b.out(r)
			packets := b.exchangeParts(r, mesh[r], parts)
			// All blocks share the reduction of chunk r and its distribution.
			all := b.allBlocks()
			b.reducePackets(rank, out.Chunk(r), in.Chunk(r), packets, all)
			for _, q := range b.peers(r) {
				mesh[r][q].PutPackets(sums[q].Chunk(r), out.Chunk(r), all)
			}
			for _, q := range b.peers(r) {
				rank.UnpackPackets(out.Chunk(q), sums[r].Chunk(q), b.block(r, q))
			}
		}
	},
})

var _ = register(&Program{
	Name: "allreduce_ring", Collective: plan.AllReduce, MultiHost: true, Instances: 8,
	Doc: "Chunk c starts at rank c+1, collects one contribution per hop and is complete at rank c; then it goes round " +
		"once more. " +
		"2·(n-1) hops; 2·(n-1)/n·S bytes out of each rank, to one neighbour.",
	write: func(b *builder) {
		n := b.o.Ranks
		next, prev := b.shift()
		scratch := b.scratch(n)
		for r := range b.each() {
			tb, rank, in, out, right := dsl.TB(0), b.Rank(r), b.in(r), b.out(r), (r+1)%n
			prev[r].Ready(tb)
			next[r].AwaitReady(tb)

			first := (r + n - 1) % n
			next[r].Send(scratch[right].Chunk(first), in.Chunk(first), tb)
			for s := 1; s < n-1; s++ {
				c := (r - 1 - s + 2*n) % n
				prev[r].Wait(tb)
				rank.Reduce(scratch[r].Chunk(c), []dsl.Chunk{in.Chunk(c)}, tb, b.op())
				next[r].Send(scratch[right].Chunk(c), scratch[r].Chunk(c), tb)
			}
			prev[r].Wait(tb)
			rank.Reduce(scratch[r].Chunk(r), []dsl.Chunk{in.Chunk(r)}, dsl.Into(out.Chunk(r)), tb, b.op())
			for s := range n - 1 {
				c := (r - s + n) % n
				if s > 0 {
					prev[r].Wait(tb)
				}
				next[r].Send(b.out(right).Chunk(c), out.Chunk(c), tb)
			}
			prev[r].Wait(tb)
			next[r].Drain(tb)
		}
	},
})

// pipelineUnit is how many bytes of a chunk the pipelined hierarchical all-reduce moves at a time: small enough that
// the steps overlap, large enough that signals cost little.
const pipelineUnit = 64 << 10

var _ = register(&Program{
	Name: "allreduce_hierarchical_pipelined", Collective: plan.AllReduce, MultiHost: true, Hierarchical: true,
	Instances: 8,
	Doc: "The steps of allreduce_hierarchical at the same time, on different slices: a block adds part l of everyone " +
		"within the host, one sends the shares of part l to their hosts, one adds what arrives and sends the sums to " +
		"hosts and neighbours, one passes on the sums of other hosts. With g ranks a host, h hosts: 2·(g-1)/g·S bytes " +
		"by memory, 2·(h-1)/h·S/g by port out of each rank.",
	write: func(b *builder) {
		p := newPipelined(b)
		for r := range b.each() {
			p.enter(r)
		}
		b.Loop(pipelineUnit, 1, func() {
			for r := range b.each() {
				p.slice(r)
			}
		})
		for r := range b.each() {
			p.leave(r)
		}
	},
})

// The thread blocks of the pipelined hierarchical all-reduce.
const (
	reduceBlock = iota // adds within the host
	sendBlock          // sends shares to their hosts
	sumBlock           // adds what hosts sent, and sends the sums
	passBlock          // passes on sums of other hosts
)

// pipelined is one all-reduce over hosts. Chunk l·hosts+h is the share of host h in part l. Rank l of host h makes the
// sum of that chunk.
type pipelined struct {
	*builder
	hosts int
	// By rank and peer: within the host the handshake and loads, the stores and the end of sumBlock, the stores and the
	// end of passBlock; between hosts the handshake, shares and sums. Only one block of a rank waits on a channel.
	local, summed, passed, hello, shares, sums [][]link
	locals, remotes                            [][]int // by rank
	slots                                      []*dsl.Buffer
	reduced                                    [][2]*dsl.Semaphore // by rank: for sendBlock, for sumBlock
}

func newPipelined(b *builder) *pipelined {
	n := b.o.Ranks
	p := &pipelined{builder: b, hosts: b.o.Hosts}
	for r := range n {
		p.locals, p.remotes = append(p.locals, b.memoryPeers(r)), append(p.remotes, b.railPeers(r))
		p.reduced = append(p.reduced, [2]*dsl.Semaphore{})
	}
	open := func(peers [][]int) [][]link {
		out := make([][]link, n)
		for r := range b.each() {
			out[r] = make([]link, n)
		}
		for r := range n { // all ranks have channels, also those whose programs are not written
			for _, q := range peers[r] {
				if l := b.link(q, r); out[r] != nil {
					out[r][q] = l
				}
			}
		}
		return out
	}
	p.local, p.summed = open(p.locals), open(p.locals)
	if p.hosts > 1 {
		p.passed, p.hello, p.shares, p.sums = open(p.locals), open(p.remotes), open(p.remotes), open(p.remotes)
		p.slots = b.scratch(p.hosts)
	}
	for r := range n {
		if p.hosts > 1 {
			p.reduced[r][0] = b.Semaphore(r, 0)
		}
		p.reduced[r][1] = b.Semaphore(r, 0)
	}
	return p
}

// enter: everybody has begun, and may be read and written. The blocks that do not take part learn it from those that
// do.
func (p *pipelined) enter(r int) {
	enter(p.local[r], p.locals[r], dsl.TB(reduceBlock))
	if p.hosts > 1 {
		enter(p.hello[r], p.remotes[r], dsl.TB(sendBlock))
	}
}

// slice is the work of a rank for one slice of every chunk.
func (p *pipelined) slice(r int) {
	host, l := p.o.host(r), r%p.o.perHost()
	share := func(buf *dsl.Buffer, host int) dsl.Chunk { return buf.Chunk(l*p.hosts + host) }

	tb := dsl.TB(reduceBlock)
	for k := range p.hosts { // every rank starts with its own host
		h := (host + k) % p.hosts
		p.pullReduce(p.local[r], share(p.out(r), h), share(p.in(r), h), p.locals[r],
			func(q int) dsl.Chunk { return share(p.in(q), h) }, tb)
	}
	for _, s := range p.reduced[r] {
		if s != nil {
			s.Release(tb)
		}
	}

	if p.hosts > 1 {
		tb = dsl.TB(sendBlock)
		p.reduced[r][0].Acquire(tb)
		for _, q := range p.remotes[r] {
			p.shares[r][q].Send(p.slots[q].Chunk(host), share(p.out(r), p.o.host(q)), tb)
		}
	}

	tb = dsl.TB(sumBlock)
	p.reduced[r][1].Acquire(tb)
	sum := share(p.out(r), host)
	var arrived []dsl.Chunk
	for _, q := range p.remotes[r] {
		p.shares[r][q].Wait(tb)
		arrived = append(arrived, p.slots[r].Chunk(p.o.host(q)))
	}
	p.reduceLocal(p.Rank(r), sum, sum, arrived, tb)
	for _, q := range p.remotes[r] {
		p.sums[r][q].Send(share(p.out(q), host), sum, tb)
	}
	for _, q := range p.locals[r] {
		p.summed[r][q].Put(share(p.out(q), host), sum, tb)
	}

	tb = dsl.TB(passBlock)
	for _, q := range p.remotes[r] {
		p.sums[r][q].Wait(tb)
		for _, m := range p.locals[r] {
			p.passed[r][m].Put(share(p.out(m), p.o.host(q)), share(p.out(r), p.o.host(q)), tb)
		}
	}
}

// leave: sumBlock has stored to all neighbours, and has learnt that all loads are over; passBlock has stored the rest.
func (p *pipelined) leave(r int) {
	leave(p.summed[r], p.locals[r], dsl.TB(sumBlock))
	if p.hosts == 1 {
		return
	}
	leave(p.passed[r], p.locals[r], dsl.TB(passBlock))
	for _, q := range p.remotes[r] {
		p.shares[r][q].Drain(dsl.TB(sendBlock))
		p.sums[r][q].Drain(dsl.TB(sumBlock))
	}
}
