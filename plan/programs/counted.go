package programs

import (
	"fmt"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

// BuildAllToAllV returns an all-to-all whose counts are known only when it runs, for example in a mixture of experts:
// block q of the input has room for the most that the rank sends to rank q, and only the pair's count of bytes is
// moved. Every rank stores to every other, in one thread block for each pair. It is no program of the registry:
// requests to a communicator give their counts in another way.
func BuildAllToAllV(ranks int) (*plan.Plan, error) {
	if ranks < 2 {
		return nil, fmt.Errorf("programs: alltoallv_direct: %d ranks; it needs 2", ranks)
	}
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "alltoallv_direct", Collective: dsl.AllToAll(ranks, 1, false),
		MinMessageSize: 1, MaxMessageSize: 1 << 40})
	to := map[[2]int]*dsl.MemoryChannel{}
	for r := range ranks {
		for i := 1; i < ranks; i++ {
			q := (r + i) % ranks
			to[[2]int{r, q}] = p.MemoryChannel(q, r)
		}
	}
	for r := range ranks {
		in := p.Rank(r).Input()
		p.Rank(r).Copy(p.Rank(r).Output().Chunk(r), in.Chunk(r), dsl.TB(0), dsl.Counted(r, r, 0))
		for i := 1; i < ranks; i++ {
			q := (r + i) % ranks
			c := to[[2]int{r, q}]
			c.Signal(dsl.TB(i), dsl.Relaxed())
		}
		for i := 1; i < ranks; i++ {
			q := (r + i) % ranks
			c := to[[2]int{r, q}]
			c.Wait(dsl.TB(i), dsl.Relaxed())
			c.Put(p.Rank(q).Output().Chunk(r), in.Chunk(q), dsl.TB(i), dsl.Counted(r, q, 0))
			c.Signal(dsl.TB(i))
			c.Wait(dsl.TB(i))
		}
	}
	return p.Compile()
}
