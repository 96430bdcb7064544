package programs

import (
	"fmt"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
)

// BuildTiles returns an all-gather that works beside kernels of its caller, such as one that multiplies matrices tile
// by tile. Every rank has tiles chunks. Hook k says that chunk k of the input is there; it goes to all peers at
// once. Hook tiles + q·tiles + k says that chunk k of rank q is there. It is no program of the registry, because
// requests to a communicator raise no hooks.
//
//  1. thread block 0 exchanges the beginning of the launch with all peers
//  2. chunk by chunk, it waits for the hook, stores the chunk to all ranks, and signals
//  3. a thread block for each peer waits for its signals and raises the output hooks
func BuildTiles(ranks, tiles int) (*plan.Plan, error) {
	if ranks < 2 || tiles < 1 {
		return nil, fmt.Errorf("programs: allgather_tiles: %d ranks, %d tiles; it needs 2 and 1", ranks, tiles)
	}
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "allgather_tiles", Collective: dsl.AllGather(ranks, tiles, false),
		MinMessageSize: 1, MaxMessageSize: 1 << 40})
	peers := func(r int) (list []int) {
		for i := 1; i < ranks; i++ {
			list = append(list, (r+i)%ranks)
		}
		return list
	}
	// Two thread blocks wait for signals of a peer, so each has a channel.
	begin, to := map[[2]int]*dsl.MemoryChannel{}, map[[2]int]*dsl.MemoryChannel{}
	for r := range ranks {
		for _, q := range peers(r) {
			begin[[2]int{r, q}], to[[2]int{r, q}] = p.MemoryChannel(q, r), p.MemoryChannel(q, r)
		}
	}
	for r := range ranks {
		for _, q := range peers(r) {
			begin[[2]int{r, q}].Signal(dsl.TB(0), dsl.Relaxed())
		}
		for _, q := range peers(r) {
			begin[[2]int{r, q}].Wait(dsl.TB(0), dsl.Relaxed())
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
			for _, q := range peers(r) {
				to[[2]int{r, q}].Put(p.Rank(q).Output().Chunk(at), rank.Input().Chunk(k), dsl.TB(0))
			}
			rank.Copy(rank.Output().Chunk(at), rank.Input().Chunk(k), dsl.TB(0))
			for _, q := range peers(r) {
				to[[2]int{r, q}].Signal(dsl.TB(0))
			}
			out[at].Signal(dsl.TB(0))
		}
		for i, q := range peers(r) {
			for k := range tiles {
				to[[2]int{r, q}].Wait(dsl.TB(1 + i))
				out[q*tiles+k].Signal(dsl.TB(1 + i))
			}
		}
	}
	return p.Compile()
}
