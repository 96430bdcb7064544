package hosts

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// memories are the buffers of a rank by the number of their TiB.
type memories map[device.Ptr][]byte

func (m memories) at(p device.Ptr, n int64) []byte {
	return m[p>>40][int64(p)&(1<<40-1):][:n]
}

// workOf does the work inside hosts, on all ranks at once.
func workOf(tops []*topology, all []memories, list func(rank int) []work) error {
	sent := map[[2]int][][]byte{}
	do := func(rank int, r *collective.Request, recvs bool) error {
		mine, m, n := tops[rank].mine(), all[rank], r.Bytes()
		switch r.Collective {
		case collective.AllGather:
			for _, q := range mine {
				if recvs { // Recv is at the same place on all ranks
					copy(all[q].at(r.Recv.Add(int64(tops[rank].own())*n), n), m.at(r.Send, n))
				}
			}
		case collective.Broadcast:
			for _, q := range mine {
				if recvs && rank == mine[r.Root] {
					copy(all[q].at(r.Recv, n), m.at(r.Send, n))
				}
			}
		case collective.Send:
			if pair := [2]int{rank, mine[r.Peer]}; !recvs {
				sent[pair] = append(sent[pair], append([]byte(nil), m.at(r.Send, n)...))
			}
		case collective.Recv:
			if pair := [2]int{mine[r.Peer], rank}; recvs {
				if len(sent[pair]) == 0 {
					return fmt.Errorf("rank %d receives from %d, which sends nothing", rank, mine[r.Peer])
				}
				copy(m.at(r.Recv, n), sent[pair][0])
				sent[pair] = sent[pair][1:]
			}
		default:
			return fmt.Errorf("%v inside a host", r.Collective)
		}
		return nil
	}
	for _, recvs := range []bool{false, true} {
		for rank := range tops {
			for _, w := range list(rank) {
				for i := range w.reqs {
					if err := do(rank, &w.reqs[i], recvs); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// phasesOf carries the messages of a chunk.
func phasesOf(all []memories, chunks []*chunk) {
	type message struct{ from, to int }
	sent := map[message][][]byte{}
	for rank, c := range chunks {
		for _, p := range c.phases {
			for _, s := range p.Sends {
				sent[message{rank, s.Peer}] = append(sent[message{rank, s.Peer}],
					append([]byte(nil), all[rank].at(s.Ptr, s.Bytes)...))
			}
		}
	}
	for rank, c := range chunks {
		for _, p := range c.phases {
			for _, r := range p.Recvs {
				copy(all[rank].at(r.Ptr, r.Bytes), sent[message{r.Peer, rank}][0])
				sent[message{r.Peer, rank}] = sent[message{r.Peer, rank}][1:]
			}
		}
	}
}

// An all-gather gives every rank every block, in place and not, whether the work beside the messages runs before
// or after them, and however the ranks are numbered.
func TestAllGatherGathers(t *testing.T) {
	layouts := [][]int{{0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1}, {0, 1}, {0, 1, 1, 2, 2, 2}, {0, 0, 1, 1, 1, 0}}
	for _, layout := range layouts {
		for _, count := range []int64{100, 70 << 10, 600 << 10} {
			for variant := range 8 {
				wireInPlace, bufferInPlace, besideFirst := variant&1 != 0, variant&2 != 0, variant&4 != 0
				if err := gathers(layout, count, wireInPlace, bufferInPlace, besideFirst); err != nil {
					t.Fatalf("hosts %v, %d bytes, wire in place %v, buffers %v, beside first %v: %v", layout, count,
						wireInPlace, bufferInPlace, besideFirst, err)
				}
			}
		}
	}
}

func gathers(layout []int, count int64, wireInPlace, bufferInPlace, besideFirst bool) error {
	n := len(layout)
	tops, all, plans := make([]*topology, n), make([]memories, n), make([][]*chunk, n)
	pattern := make([]byte, count+int64(n))
	for i := range pattern {
		pattern[i] = byte(i ^ i>>8*7)
	}
	block := func(p int) []byte { return pattern[p:][:count] }
	for rank := range n {
		tops[rank] = newTopology(rank, layout)
		r := &collective.Request{Collective: collective.AllGather, Type: datatype.Uint8, Count: count, Send: 1 << 40,
			Recv: 2 << 40}
		if bufferInPlace {
			r = inPlace(*r, rank)
		}
		all[rank] = memories{1: make([]byte, count), 2: make([]byte, count*int64(n))}
		copy(all[rank].at(r.Send, count), block(rank))
		b := builder{topology: tops[rank], r: r, elem: 1, room: testRoom, scratch: [2]device.Ptr{3 << 40, 4 << 40},
			inPlace: wireInPlace, rules: tops[rank].measured(wireInPlace)}
		var err error
		if plans[rank], err = b.build(); err != nil {
			return err
		}
	}
	for k := range plans[0] {
		now := make([]*chunk, n)
		for rank := range n {
			now[rank] = plans[rank][k]
		}
		steps := []func() error{
			func() error { return workOf(tops, all, func(r int) []work { return now[r].before }) },
			func() error { phasesOf(all, now); return nil },
			func() error { return workOf(tops, all, func(r int) []work { return now[r].beside }) },
			func() error { return workOf(tops, all, func(r int) []work { return now[r].after }) },
		}
		if besideFirst {
			steps[1], steps[2] = steps[2], steps[1]
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
	}
	for rank := range n {
		for p := range n {
			if !bytes.Equal(all[rank].at(device.Ptr(2<<40).Add(int64(p)*count), count), block(p)) {
				return fmt.Errorf("rank %d has another block %d", rank, p)
			}
		}
	}
	return nil
}
