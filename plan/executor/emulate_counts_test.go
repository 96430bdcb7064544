package executor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/test/plans"
)

// CountedPlans are all-to-alls of n ranks whose counts are known when they run: the shipped one, one that gets, in a
// pipeline and in slices, and one over port channels, which may lead to other hosts.
func CountedPlans(t testing.TB, n int) map[string]*plan.Plan {
	t.Helper()
	direct, err := plans.AllToAllV(n)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*plan.Plan{"direct": direct, "gets": countedGets(t, n), "ports": countedPuts(t, n)}
}

// countedSpec is an all-to-all of n ranks with two chunks a block.
func countedSpec(name string, n int) dsl.AlgoSpec {
	return dsl.AlgoSpec{Name: name, Collective: dsl.AllToAll(n, 2, false), Instances: 1, RanksPerNode: 1,
		MinMessageSize: 1, MaxMessageSize: 1 << 30}
}

// countedGets has a pair of thread blocks for each peer, which divide the peer's block and get it window by window.
func countedGets(t testing.TB, n int) *plan.Plan {
	spec := countedSpec("alltoallv_gets", n)
	spec.RanksPerNode = n
	p := dsl.NewCollectiveProgram(spec)
	for r := range n {
		me := p.Rank(r)
		me.Copy(me.Output().Slice(2*r, 2*r+2), me.Input().Slice(2*r, 2*r+2), dsl.TB(0), dsl.Counted(r, r, 0))
	}
	channels := map[[3]int]*dsl.MemoryChannel{}
	each := func(f func(r, q, tb int, c *dsl.MemoryChannel)) {
		for r := range n {
			for i := 1; i < n; i++ {
				for k := range 2 {
					f(r, (r+i)%n, 2*i-1+k, channels[[3]int{r, (r + i) % n, k}])
				}
			}
		}
	}
	for r := range n {
		for i := 1; i < n; i++ {
			for k := range 2 {
				channels[[3]int{r, (r + i) % n, k}] = p.MemoryChannel((r+i)%n, r)
			}
		}
	}
	each(func(r, q, tb int, c *dsl.MemoryChannel) { c.Signal(dsl.TB(tb), dsl.Relaxed()) })
	each(func(r, q, tb int, c *dsl.MemoryChannel) { c.Wait(dsl.TB(tb), dsl.Relaxed()) })
	p.Loop(64, 2, func() {
		for r := range n {
			for i := 1; i < n; i++ {
				q := (r + i) % n
				channels[[3]int{r, q, 0}].Get(p.Rank(r).Output().Slice(2*q, 2*q+2), p.Rank(q).Input().Slice(2*r, 2*r+2),
					dsl.Group(dsl.ThreadBlockGroup{2*i - 1, 2 * i}), dsl.Counted(q, r, 0))
			}
		}
	})
	each(func(r, q, tb int, c *dsl.MemoryChannel) { c.Signal(dsl.TB(tb)) })
	each(func(r, q, tb int, c *dsl.MemoryChannel) { c.Wait(dsl.TB(tb)) })
	return compiled(t, p)
}

// countedPuts pushes the second chunk of each block before the first.
func countedPuts(t testing.TB, n int) *plan.Plan {
	p := dsl.NewCollectiveProgram(countedSpec("alltoallv_ports", n))
	for r := range n {
		me := p.Rank(r)
		me.Copy(me.Output().Slice(2*r, 2*r+2), me.Input().Slice(2*r, 2*r+2), dsl.TB(0), dsl.Counted(r, r, 0))
	}
	for r := range n {
		for i := 1; i < n; i++ {
			q := (r + i) % n
			c, tb := p.PortChannel(q, r), dsl.TB(i)
			c.Signal(tb)
			c.Wait(tb)
			for _, k := range []int{1, 0} {
				c.Put(p.Rank(q).Output().Chunk(2*r+k), p.Rank(r).Input().Chunk(2*q+k), tb, dsl.Counted(r, q, k))
			}
			c.Signal(tb)
			c.Wait(tb)
		}
	}
	return compiled(t, p)
}

func compiled(t testing.TB, p *dsl.CollectiveProgram) *plan.Plan {
	t.Helper()
	out, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// RandomCounts is a table of counts for blocks of that many bytes. Some are 0, some are all, and some are more than
// there is room for, which is all, too.
func RandomCounts(rng *rand.Rand, n int, block uint64) []uint64 {
	table := make([]uint64, n*n)
	for i := range table {
		table[i] = rng.Uint64N(block + 1)
		if rng.IntN(3) == 0 {
			table[i] = []uint64{0, block, block + 1, 1 << 63, 1<<64 - 1}[rng.IntN(5)]
		}
	}
	return table
}

// CountedOutput is what a rank has after an all-to-all with counts: behind them, what was there. The function input
// returns the block of a source that is for this rank.
func CountedOutput(rank, n int, block uint64, table []uint64, was byte, input func(src int) []byte) []byte {
	out := bytes.Repeat([]byte{was}, n*int(block))
	for src := range n {
		count := min(table[src*n+rank], block)
		copy(out[uint64(src)*block:], input(src)[:count])
	}
	return out
}

// counted checks the output of the last launch.
func (c *emulation) counted(result []byte, inputs [][]byte, l *plan.Layout) error {
	n := len(c.plan.GPUs)
	for r := range n {
		want := CountedOutput(r, n, uint64(l.Block), c.counts[len(c.counts)-1], 0xA5, func(src int) []byte {
			return inputs[src][int64(r)*l.Block:]
		})
		if !bytes.Equal(result[:len(want)], want) {
			return fmt.Errorf("rank %d: wrong bytes with counts %d", r, c.counts[len(c.counts)-1])
		}
		result = result[len(want):]
	}
	return nil
}

// kernelCounts runs plans with counts that change between launches, as they may between replays of a graph.
func kernelCounts(t *testing.T, program string, blocks []uint64) {
	for _, n := range []int{2, 3} {
		for name, p := range CountedPlans(t, n) {
			if _, err := Check(p); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, hosts := range [][]int{nil, {0, 1, 2}} {
				if hosts != nil && name != "ports" {
					continue
				}
				for _, block := range blocks {
					rng := rand.New(rand.NewPCG(block, uint64(n)))
					c := emulation{plan: p, message: uint64(n) * block, t: datatype.Float32, threads: 3}
					if hosts != nil {
						c.hosts = hosts[:n]
					}
					for range 3 {
						c.counts = append(c.counts, RandomCounts(rng, n, block))
						c.launches = len(c.counts)
						if err := c.run(t, program); err != nil {
							t.Errorf("%s, %d ranks on %v, blocks of %d bytes: %v", name, n, hosts, block, err)
						}
					}
				}
			}
		}
	}
}
