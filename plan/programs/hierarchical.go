package programs

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

// rails are the links of programs in which ranks exchange data with the ranks of their host and of their rail. A rail
// is the ranks of equal local rank, one per host.
type rails struct {
	*builder
	links           [][]link
	locals, remotes [][]int // peers of a rank, starting after it
}

func newRails(b *builder) *rails {
	n, per := b.o.Ranks, b.o.perHost()
	f := &rails{builder: b}
	for r := range n {
		links, remotes := make([]link, n), []int(nil)
		for k := 1; k < b.o.Hosts; k++ {
			remotes = append(remotes, (r+k*per)%n)
		}
		for _, list := range [2][]int{b.memoryPeers(r), remotes} {
			for _, q := range list {
				links[q] = b.link(q, r)
			}
		}
		f.links, f.locals, f.remotes = append(f.links, links), append(f.locals, b.memoryPeers(r)), append(f.remotes, remotes)
	}
	return f
}

// enter performs the entry handshake with all peers. The peers on other hosts are asked first, because they answer
// last.
func (f *rails) enter(r int, tb dsl.Option) {
	for _, q := range f.remotes[r] {
		f.links[r][q].ready(tb)
	}
	enter(f.links[r], f.locals[r], tb)
	for _, q := range f.remotes[r] {
		f.links[r][q].awaitReady(tb)
	}
}

var _ = register(&Program{
	Name: "allgather_hierarchical", Collective: plan.AllGather, MultiHost: true, Hierarchical: true, Instances: 4,
	Doc: "Every rank sends its input to the ranks of equal local rank on the other hosts, and passes it and what comes " +
		"from them to the ranks of its host. With g ranks a host, h hosts: (h-1)·S bytes by port out of each rank with " +
		"input S, (g-1)·h·S by memory.",
	spec: func(o Options) dsl.AlgoSpec { return dsl.AlgoSpec{Collective: dsl.AllGather(o.Ranks, 1, o.InPlace)} },
	write: func(b *builder) {
		f, tb := newRails(b), dsl.TB(0)
		for r := range b.each() {
			links, in, out := f.links[r], b.in(r).Chunk(0), b.out(r)
			f.enter(r, tb)
			for _, q := range f.remotes[r] {
				links[q].port.PutWithSignal(b.out(q).Chunk(r), in, tb)
			}
			copyOwn(b.Rank(r), out.Chunk(r), in, tb)
			pass := func(c int, src dsl.Chunk) {
				for _, q := range f.locals[r] {
					links[q].mem.Put(b.out(q).Chunk(c), src, tb)
				}
			}
			pass(r, in)
			for k := len(f.remotes[r]) - 1; k >= 0; k-- { // the rank that has sent to r first
				q := f.remotes[r][k]
				links[q].wait(tb)
				pass(q, out.Chunk(q))
			}
			leave(links, f.locals[r], tb)
			for _, q := range f.remotes[r] {
				links[q].drain(tb)
			}
		}
	},
})

var _ = register(&Program{
	Name: "reducescatter_hierarchical", Collective: plan.ReduceScatter, MultiHost: true, Hierarchical: true, Instances: 4,
	Doc: "For each host, every rank adds what its host has for the rank of equal local rank there, by loads, and sends " +
		"the sum to it, which adds the sums of all hosts. With g ranks a host, h hosts: (g-1)·h·S bytes by memory into " +
		"each rank with output S, (h-1)·S by port out of it.",
	spec: reduceScatter,
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
				links[q].port.PutWithSignal(arrived[q].Chunk(host), sum(q), tb)
			}
			own := sum(r)
			var others []dsl.Chunk
			for k := len(f.remotes[r]) - 1; k >= 0; k-- {
				q := f.remotes[r][k]
				links[q].wait(tb)
				others = append(others, arrived[r].Chunk(b.o.host(q)))
			}
			if len(others) == 0 {
				b.Rank(r).Copy(b.out(r).Chunk(0), own, tb)
			}
			b.reduceLocal(b.Rank(r), b.out(r).Chunk(0), own, others, tb)
			leave(links, f.locals[r], tb)
			for _, q := range f.remotes[r] {
				links[q].drain(tb)
			}
		}
	},
})
