package hosts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// TestSchedulesMatch builds the schedules of all ranks, for many topologies, collectives and counts, and checks what
// any device relies on: the same local collectives in each chunk on every rank of a host, in one order; every
// message has a receiver that expects its size, in order; ranks talk only to ranks of their rails; scratch is not
// exceeded; the memory that a phase sends does not overlap the memory that it writes.
func TestSchedulesMatch(t *testing.T) {
	list := []collective.Collective{collective.AllReduce, collective.Reduce, collective.Broadcast,
		collective.ReduceScatter,
		collective.AllGather, collective.Gather, collective.Scatter, collective.AllToAll, collective.Barrier}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		layout := randomHosts(rng)
		for _, c := range list {
			r := collective.Request{Collective: c, Type: datatype.Type(rng.IntN(int(datatype.NumTypes))),
				Op: datatype.Op(rng.IntN(int(datatype.NumOps))), Count: int64(rng.IntN(1 << rng.IntN(23))),
				Root: rng.IntN(len(layout)), Send: 1 << 40, Recv: 2 << 40}
			if err := match(layout, &r, rng); err != nil {
				t.Fatalf("seed %d, hosts %v, %v of %d × %v, root %d: %v", seed, layout, c, r.Count, r.Type, r.Root, err)
			}
		}
	}
}

// randomHosts gives each of up to 64 ranks on 2 to 4 hosts its host, in any order.
func randomHosts(rng *rand.Rand) []int {
	var layout []int
	hosts := 2 + rng.IntN(3)
	for h := range hosts {
		for range 1 + rng.IntN(1+rng.IntN(16)) {
			layout = append(layout, h)
		}
	}
	if rng.IntN(2) == 0 {
		rng.Shuffle(len(layout), func(i, j int) { layout[i], layout[j] = layout[j], layout[i] })
		number := map[int]int{} // hosts are numbered by first appearance
		for i, h := range layout {
			if _, ok := number[h]; !ok {
				number[h] = len(number)
			}
			layout[i] = number[h]
		}
	}
	return layout
}

const testRoom = 1 << 20

// inPlace makes r in place on a rank.
func inPlace(r collective.Request, rank int) *collective.Request {
	own := int64(rank) * r.Bytes()
	switch {
	case r.Collective == collective.AllGather, r.Collective == collective.Gather && rank == r.Root:
		r.Send = r.Recv.Add(own)
	case r.Collective == collective.ReduceScatter, r.Collective == collective.Scatter && rank == r.Root:
		r.Recv = r.Send.Add(own)
	case r.Collective != collective.Gather && r.Collective != collective.Scatter:
		r.Recv = r.Send
	}
	return &r
}

func match(layout []int, r *collective.Request, rng *rand.Rand) error {
	n, wireInPlace := len(layout), rng.IntN(2) == 0
	some := newTopology(0, layout).measured(wireInPlace)
	if can := newTopology(0, layout).choices(r.Collective, wireInPlace); len(can) > 0 && rng.IntN(2) == 0 {
		some[r.Collective] = []Row{{0, can[rng.IntN(len(can))]}}
	}
	direct := false
	exact := newTopology(0, layout).rails > 1 && r.Ordered() && rng.IntN(2) == 0
	all := make([][]*chunk, n)
	tops := make([]*topology, n)
	for rank := range n {
		tops[rank] = newTopology(rank, layout)
		b := builder{topology: tops[rank], r: r, room: testRoom, scratch: [2]device.Ptr{3 << 40, 4 << 40},
			inPlace: wireInPlace, rules: some, exact: exact}
		if r.Collective != collective.Barrier {
			b.elem = r.Type.Size()
			if rng.IntN(3) == 0 { // ranks may differ in that
				b.r = inPlace(*r, rank)
			}
		}
		var err error
		if all[rank], err = b.build(); err != nil {
			return err
		}
		direct = b.straight() || exact
		if err := inBounds(all[rank], wireInPlace); err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
	}
	if err := flowsMatch(tops, all, direct); err != nil {
		return err
	}
	return sameLocalCalls(tops, all)
}

// flowsMatch checks that each message has a receiver that expects its size, in order, and that ranks talk to ranks
// of their rails only, unless direct is set.
func flowsMatch(tops []*topology, all [][]*chunk, direct bool) error {
	flows := map[[2]int][]int64{} // bytes sent and not yet received, by pair; phases of ranks are in one order
	for rank, chunks := range all {
		for _, c := range chunks {
			for _, p := range c.phases {
				for _, m := range p.Sends {
					if !direct && !slices.Contains(tops[rank].railPeers(), m.Peer) {
						return fmt.Errorf("rank %d sends to %d, which is on none of its rails", rank, m.Peer)
					}
					flows[[2]int{rank, m.Peer}] = append(flows[[2]int{rank, m.Peer}], m.Bytes)
				}
			}
		}
	}
	take := func(from, to int, bytes int64) error {
		k := [2]int{from, to}
		if len(flows[k]) == 0 || flows[k][0] != bytes {
			return fmt.Errorf("rank %d expects %d bytes of %d, next are %v", to, bytes, from, flows[k])
		}
		flows[k] = flows[k][1:]
		return nil
	}
	for rank, chunks := range all {
		for _, c := range chunks {
			for _, p := range c.phases {
				for _, m := range p.Recvs {
					if err := take(m.Peer, rank, m.Bytes); err != nil {
						return err
					}
				}
				for _, s := range p.Reduces {
					for _, peer := range s.Peers {
						if _, here := s.At(peer, rank); here {
							continue
						}
						if err := take(peer, rank, s.Count*s.Type.Size()); err != nil {
							return err
						}
					}
				}
			}
		}
	}
	for k, left := range flows {
		if len(left) > 0 {
			return fmt.Errorf("rank %d sends rank %d %v bytes that it does not receive", k[0], k[1], left)
		}
	}
	return nil
}

// sameLocalCalls compares the local collectives of the ranks of each host and their places in the chunks. Sends and
// receives may differ.
func sameLocalCalls(tops []*topology, all [][]*chunk) error {
	calls := func(rank int) (list []string) {
		for k, c := range all[rank] {
			for i, part := range [][]work{c.before, c.beside, c.after} {
				for _, w := range part {
					for _, q := range w.reqs {
						if !q.PointToPoint() {
							list = append(list, fmt.Sprint(k, i, q.Collective, q.Count, q.Root, q.Op))
						}
					}
				}
			}
		}
		return list
	}
	for rank, t := range tops {
		if first := t.mine()[0]; !slices.Equal(calls(first), calls(rank)) {
			return fmt.Errorf("ranks %d and %d of one host call %v and %v", first, rank, calls(first), calls(rank))
		}
	}
	return nil
}

// inBounds checks that scratch is not exceeded, and that no phase writes memory that it also sends, except where
// wire.InPlace allows it.
func inBounds(chunks []*chunk, wireInPlace bool) error {
	scratch := func(p device.Ptr, n int64) error {
		if off := int64(p) & (1<<40 - 1); p >= 3<<40 && off+n > testRoom {
			return fmt.Errorf("%d bytes at offset %d of %d bytes of scratch", n, off, testRoom)
		}
		return nil
	}
	for _, c := range chunks {
		for _, p := range c.phases {
			if n := len(p.Reduces); n > mostReduces || n > 0 && n+len(p.Sends) > mostTogether {
				return fmt.Errorf("a phase of %d reductions and %d messages: more than fit into a launch", n, len(p.Sends))
			}
			for _, s := range p.Sends {
				if err := scratch(s.Ptr, s.Bytes); err != nil {
					return err
				}
				for _, d := range p.Recvs {
					if s.Bytes > 0 && d.Bytes > 0 && s.Ptr < d.Ptr.Add(d.Bytes) && d.Ptr < s.Ptr.Add(s.Bytes) {
						return fmt.Errorf("a phase sends from its receive buffer")
					}
				}
				for _, d := range p.Reduces {
					if err := scratch(d.Own, int64(len(d.Here))*d.Stride); err != nil {
						return err
					}
					if wireInPlace && len(p.Reduces) == 1 && len(p.Recvs) == 0 && s.Ptr == d.Own {
						continue
					}
					if n := d.Count * d.Type.Size(); s.Bytes > 0 && n > 0 && s.Ptr < d.Dst.Add(n) && d.Dst < s.Ptr.Add(s.Bytes) {
						return fmt.Errorf("a phase sends from the target of its reduction")
					}
				}
			}
		}
		for _, w := range slices.Concat(c.before, c.beside, c.after) {
			for _, k := range w.copies {
				if err := scratch(k.dst, k.bytes); err != nil {
					return err
				}
			}
			for _, k := range w.scales {
				if err := scratch(k.Recv, k.Bytes()); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// The messages of a large all-to-all that goes straight between GPUs are one phase: between two the network is idle. In
// place the size of the scratch decides the number of phases, and the messages are the same.
func TestAllToAllIsOnePhase(t *testing.T) {
	top := newTopology(0, []int{0, 1})
	messages := func(send device.Ptr) (phases int, sizes []int64) {
		b := builder{topology: top, r: &collective.Request{Collective: collective.AllToAll, Type: datatype.Float32,
			Count: leastGPUChunk, Send: send, Recv: 2 << 40}, elem: 4, room: gpuRoom, // four chunks
			scratch: [2]device.Ptr{3 << 40, 4 << 40}, inPlace: true, rules: top.measured(true)}
		chunks, err := b.build()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range chunks {
			for _, p := range c.phases {
				phases++
				for _, m := range p.Sends {
					sizes = append(sizes, m.Bytes)
				}
			}
		}
		return phases, sizes
	}
	phases, sizes := messages(1 << 40)
	inPlace, same := messages(2 << 40)
	if phases != 1 || inPlace != 4 || !slices.Equal(sizes, same) {
		t.Errorf("%d phases of messages of %v, in place %d of %v", phases, sizes, inPlace, same)
	}
}
