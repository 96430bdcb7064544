package sketch

import (
	"fmt"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

// links opens a memory channel for every ordered pair of ranks; links[a][b] is from a to b.
func links(p *dsl.CollectiveProgram, ranks int) [][]dsl.Link {
	all := make([][]dsl.Link, ranks)
	for a := range all {
		all[a] = make([]dsl.Link, ranks)
		for _, b := range peers(ranks, a) {
			all[a][b] = p.Link(b, a, true)
		}
	}
	return all
}

// peers returns the other ranks, starting after r.
func peers(ranks, r int) (others []int) {
	for k := 1; k < ranks; k++ {
		others = append(others, (r+k)%ranks)
	}
	return others
}

// Tiles returns an all-gather that works beside kernels of its caller, such as one that multiplies matrices tile
// by tile. Every rank has tiles chunks. Hook k says that chunk k of the input is there; it goes to all peers at
// once. Hook tiles + q·tiles + k says that chunk k of rank q is there. Requests to a
// communicator raise no hooks, so plan/programs has no such program.
//
//  1. thread block 0 exchanges the beginning of the launch with all peers
//  2. chunk by chunk, it waits for the hook, stores the chunk to all ranks, and signals
//  3. a thread block for each peer waits for its signals and raises the output hooks
func Tiles(ranks, tiles int) (*plan.Plan, error) {
	if ranks < 2 || tiles < 1 {
		return nil, fmt.Errorf("sketch: allgather_tiles: %d ranks, %d tiles; it needs 2 and 1", ranks, tiles)
	}
	b := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "allgather_tiles", Collective: dsl.AllGather(ranks, tiles, false),
		MinMessageSize: 1, MaxMessageSize: 1 << 40})
	begin, to := links(b, ranks), links(b, ranks) // two thread blocks wait for signals of a peer, so each has a channel
	for r := range ranks {
		for _, q := range peers(ranks, r) {
			begin[r][q].Ready(dsl.TB(0))
		}
		for _, q := range peers(ranks, r) {
			begin[r][q].AwaitReady(dsl.TB(0))
		}
		rank := b.Rank(r)
		in, out := make([]*dsl.Hook, tiles), make([]*dsl.Hook, ranks*tiles)
		for k := range in {
			in[k] = b.InputHook(rank.Input().Chunk(k))
		}
		for i := range out {
			out[i] = b.OutputHook(rank.Output().Chunk(i))
		}
		for k := range tiles {
			in[k].Wait(dsl.TB(0))
			at := r*tiles + k
			for _, q := range peers(ranks, r) {
				to[r][q].Put(b.Rank(q).Output().Chunk(at), rank.Input().Chunk(k), dsl.TB(0))
			}
			rank.Copy(rank.Output().Chunk(at), rank.Input().Chunk(k), dsl.TB(0))
			for _, q := range peers(ranks, r) {
				to[r][q].Signal(dsl.TB(0))
			}
			out[at].Signal(dsl.TB(0))
		}
		for i, q := range peers(ranks, r) {
			for k := range tiles {
				to[r][q].Wait(dsl.TB(1 + i))
				out[q*tiles+k].Signal(dsl.TB(1 + i))
			}
		}
	}
	return b.Compile()
}

// AllToAllV returns an all-to-all whose counts are known only when it runs, for example in a mixture of experts:
// block q of the input has room for the most that the rank sends to rank q, and only the pair's count of bytes is
// moved. Every rank stores to every other, in one thread block for each pair. Requests to a
// communicator give their counts in another way, so plan/programs has no such program.
func AllToAllV(ranks int) (*plan.Plan, error) {
	if ranks < 2 {
		return nil, fmt.Errorf("sketch: alltoallv_direct: %d ranks; it needs 2", ranks)
	}
	b := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "alltoallv_direct", Collective: dsl.AllToAll(ranks, 1, false), MinMessageSize: 1,
		MaxMessageSize: 1 << 40})
	to := links(b, ranks)
	for r := range ranks {
		b.Rank(r).Copy(b.Rank(r).Output().Chunk(r), b.Rank(r).Input().Chunk(r), dsl.TB(0), dsl.Counted(r, r, 0))
		for i, q := range peers(ranks, r) {
			to[r][q].Ready(dsl.TB(i + 1))
		}
		for i, q := range peers(ranks, r) {
			tb := dsl.TB(i + 1)
			to[r][q].AwaitReady(tb)
			to[r][q].Put(b.Rank(q).Output().Chunk(r), b.Rank(r).Input().Chunk(q), tb, dsl.Counted(r, q, 0))
			to[r][q].Signal(tb)
			to[r][q].Wait(tb)
		}
	}
	return b.Compile()
}
