package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

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
	spec: func(o Options) dsl.AlgoSpec { return dsl.AlgoSpec{Collective: dsl.AllReduce(o.Ranks, 1, o.InPlace)} },
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
		var remote []int
		for k := 1; k < p.hosts; k++ {
			remote = append(remote, (r+k*b.o.perHost())%n)
		}
		p.locals, p.remotes = append(p.locals, b.memoryPeers(r)), append(p.remotes, remote)
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
	for _, q := range p.remotes[r] {
		p.hello[r][q].ready(dsl.TB(sendBlock))
	}
	for _, q := range p.remotes[r] {
		p.hello[r][q].awaitReady(dsl.TB(sendBlock))
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
			p.shares[r][q].send(p.slots[q].Chunk(host), share(p.out(r), p.o.host(q)), tb)
		}
	}

	tb = dsl.TB(sumBlock)
	p.reduced[r][1].Acquire(tb)
	sum := share(p.out(r), host)
	var arrived []dsl.Chunk
	for _, q := range p.remotes[r] {
		p.shares[r][q].wait(tb)
		arrived = append(arrived, p.slots[r].Chunk(p.o.host(q)))
	}
	p.reduceLocal(p.Rank(r), sum, sum, arrived, tb)
	for _, q := range p.remotes[r] {
		p.sums[r][q].send(share(p.out(q), host), sum, tb)
	}
	for _, q := range p.locals[r] {
		p.summed[r][q].mem.Put(share(p.out(q), host), sum, tb)
	}

	tb = dsl.TB(passBlock)
	for _, q := range p.remotes[r] {
		p.sums[r][q].wait(tb)
		for _, m := range p.locals[r] {
			p.passed[r][m].mem.Put(share(p.out(m), p.o.host(q)), share(p.out(r), p.o.host(q)), tb)
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
		p.shares[r][q].drain(dsl.TB(sendBlock))
		p.sums[r][q].drain(dsl.TB(sumBlock))
	}
}
