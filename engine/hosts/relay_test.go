package hosts

import (
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// countsOf is the request of each rank for random counts, many of them 0, with gaps between the parts on some ranks.
func countsOf(rng *rand.Rand, n int, most int64) []*collective.Request {
	all := make([]int64, n*n)
	for i := range all {
		if rng.IntN(3) > 0 {
			all[i] = rng.Int64N(most)
		}
	}
	reqs := make([]*collective.Request, n)
	for r := range reqs {
		q := &collective.Request{Collective: collective.AllToAllV, Type: datatype.Float16, Send: 1 << 40, Recv: 2 << 40,
			AllCounts: all}
		gap := int64(rng.IntN(2))
		var sent, taken int64
		for p := range n {
			q.SendCounts, q.SendDispls = append(q.SendCounts, all[r*n+p]), append(q.SendDispls, sent)
			q.RecvCounts, q.RecvDispls = append(q.RecvCounts, all[p*n+r]), append(q.RecvDispls, taken)
			sent += all[r*n+p] + gap
			taken += all[p*n+r] + gap
		}
		reqs[r] = q
	}
	return reqs
}

// TestRelaysMatch checks the schedules of relayV like TestSchedulesMatch, and that messages inside a host match, too.
func TestRelaysMatch(t *testing.T) {
	relayed := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		layout := randomHosts(rng)
		n := len(layout)
		reqs := countsOf(rng, n, 1+rng.Int64N(20_000))
		tops, all := make([]*topology, n), make([][]*chunk, n)
		inside := map[[2]int]int64{} // elements sent less those received, by pair of ranks
		taken := false
		for rank := range n {
			tops[rank] = newTopology(rank, layout)
			b := builder{topology: tops[rank], r: reqs[rank], elem: 2, scratch: [2]device.Ptr{3 << 40, 4 << 40},
				rules: tops[rank].measured(false)}
			relays := b.relaysV(testRoom)
			if rank > 0 && relays != taken {
				t.Fatalf("seed %d: ranks 0 and %d do not agree on relays", seed, rank)
			}
			if taken = relays; !relays {
				continue
			}
			c := b.relayV(collective.Request{Collective: collective.AllToAllV})
			if all[rank] = b.chunks; b.chunks[0] != c {
				t.Fatal("relayV returns another chunk than it adds")
			}
			if err := inBounds(all[rank], false); err != nil {
				t.Fatalf("seed %d, hosts %v, rank %d: %v", seed, layout, rank, err)
			}
			for _, w := range c.before {
				for _, q := range w.reqs {
					peer := tops[rank].mine()[q.Peer]
					switch q.Collective {
					case collective.Send:
						inside[[2]int{rank, peer}] += q.Count
					case collective.Recv:
						inside[[2]int{peer, rank}] -= q.Count
					}
				}
			}
		}
		if !taken {
			continue
		}
		relayed++
		if err := flowsMatch(tops, all, false); err != nil {
			t.Fatalf("seed %d, hosts %v: %v", seed, layout, err)
		}
		for pair, left := range inside {
			if left != 0 {
				t.Fatalf("seed %d, hosts %v: rank %d sends %d elements more to rank %d than it takes", seed, layout, pair[0],
					left, pair[1])
			}
		}
	}
	if relayed < 50 {
		t.Fatalf("%d of 300 cases went over relays", relayed)
	}
}
