// Package plans writes plans with the forms that shipped programs lack: hooks, and counts known only at run time. Tests
// of the verifier, the simulator and the executors run them. The package is pure, like dsl.
package plans

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

func newProgram(name string, c dsl.Collective) *dsl.CollectiveProgram {
	return dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: name, Collective: c, MinMessageSize: 1, MaxMessageSize: 1 << 40})
}

// peers returns the other ranks, starting after r, so that no two ranks begin with the same peer.
func peers(r, n int) (out []int) {
	for k := 1; k < n; k++ {
		out = append(out, (r+k)%n)
	}
	return out
}

// mesh opens a link by memory for every ordered pair; mesh[a][b] is from a to b.
func mesh(p *dsl.CollectiveProgram, ranks int) [][]dsl.Link {
	m := make([][]dsl.Link, ranks)
	for a := range m {
		m[a] = make([]dsl.Link, ranks)
		for _, b := range peers(a, ranks) {
			m[a][b] = p.Link(b, a, true)
		}
	}
	return m
}

// AllGatherTiles returns an all-gather that works beside kernels of its caller, such as one that multiplies matrices
// tile by tile. It needs 2 ranks and 1 tile. Every rank has tiles chunks. Hook k says that chunk k of the input is
// there; it goes to all peers at once. Hook tiles + q·tiles + k says that chunk k of rank q is there.
//
//  1. thread block 0 exchanges the beginning of the launch with all peers
//  2. chunk by chunk, it waits for the hook, stores the chunk to all ranks, and signals
//  3. a thread block for each peer waits for its signals and raises the output hooks
func AllGatherTiles(ranks, tiles int) (*plan.Plan, error) {
	p := newProgram("allgather_tiles", dsl.AllGather(ranks, tiles, false))
	begin, to := mesh(p, ranks), mesh(p, ranks) // two thread blocks wait for signals of a peer, so each has a channel
	for r := range ranks {
		for _, q := range peers(r, ranks) {
			begin[r][q].Ready(dsl.TB(0))
		}
		for _, q := range peers(r, ranks) {
			begin[r][q].AwaitReady(dsl.TB(0))
		}
		rank := p.Rank(r)
		in, out := make([]*dsl.Hook, tiles), make([]*dsl.Hook, ranks*tiles)
		for k := range in {
			in[k] = p.InputHook(rank.Input().Chunk(k))
		}
		for i := range out {
			out[i] = p.OutputHook(rank.Output().Chunk(i))
		}
		for k := range tiles {
			in[k].Wait(dsl.TB(0))
			at := r*tiles + k
			for _, q := range peers(r, ranks) {
				to[r][q].Put(p.Rank(q).Output().Chunk(at), rank.Input().Chunk(k), dsl.TB(0))
			}
			rank.Copy(rank.Output().Chunk(at), rank.Input().Chunk(k), dsl.TB(0))
			for _, q := range peers(r, ranks) {
				to[r][q].Signal(dsl.TB(0))
			}
			out[at].Signal(dsl.TB(0))
		}
		for i, q := range peers(r, ranks) {
			for k := range tiles {
				to[r][q].Wait(dsl.TB(1 + i))
				out[q*tiles+k].Signal(dsl.TB(1 + i))
			}
		}
	}
	return p.Compile()
}

// AllToAllV returns an all-to-all whose counts are known only when it runs, for example in a mixture of experts: block
// q of the input has room for the most that the rank sends to rank q, and only the pair's count of bytes is moved. It
// needs 2 ranks. Every rank stores to every other, in one thread block for each pair.
func AllToAllV(ranks int) (*plan.Plan, error) {
	p := newProgram("alltoallv_direct", dsl.AllToAll(ranks, 1, false))
	to := mesh(p, ranks)
	for r := range ranks {
		in, out := p.Rank(r).Input(), p.Rank(r).Output()
		p.Rank(r).Copy(out.Chunk(r), in.Chunk(r), dsl.TB(0), dsl.Counted(r, r, 0))
		for i, q := range peers(r, ranks) {
			to[r][q].Ready(dsl.TB(i + 1))
		}
		for i, q := range peers(r, ranks) {
			tb := dsl.TB(i + 1)
			to[r][q].AwaitReady(tb)
			to[r][q].Put(p.Rank(q).Output().Chunk(r), in.Chunk(q), tb, dsl.Counted(r, q, 0))
			to[r][q].Signal(tb)
			to[r][q].Wait(tb)
		}
	}
	return p.Compile()
}
