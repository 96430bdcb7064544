package executor

import "github.com/goccl/goccl/plan"

// rehearsal runs the merged programs of all ranks without data, only to see whether they end: step 4 of coalesce.go.
type rehearsal struct {
	programs []*program
	inbound  [][]uint64         // by rank and link: signals that have arrived and were not consumed
	arrived  []map[int]int      // by rank and barrier
	met      []map[[2]int]int   // by rank, block and barrier
	target   map[*instr]int     // value that arrived must reach, for announced barriers
	writers  []map[int][]*instr // by rank and scratch chunk: ops that send packets there
	done     map[*instr]bool    // the writers that have run
}

// rehearse reports whether the merged programs of all ranks end.
func rehearse(programs []*program) bool {
	h := &rehearsal{programs: programs, target: map[*instr]int{}, done: map[*instr]bool{}}
	pcs := make([][]int, len(programs))
	for r, prog := range programs {
		h.inbound = append(h.inbound, make([]uint64, prog.links))
		h.arrived, h.met = append(h.arrived, map[int]int{}), append(h.met, map[[2]int]int{})
		h.writers = append(h.writers, map[int][]*instr{})
		pcs[r] = make([]int, len(prog.merged))
	}
	for _, prog := range programs {
		for _, list := range prog.merged {
			for i := range list {
				h.note(&list[i])
			}
		}
	}
	for left := true; left; {
		moved := false
		left = false
		for r, prog := range programs {
			for b, list := range prog.merged {
				for pcs[r][b] < len(list) && h.step(r, b, &list[pcs[r][b]]) {
					pcs[r][b]++
					moved = true
				}
				left = left || pcs[r][b] < len(list)
			}
		}
		if left && !moved {
			return false
		}
	}
	return true
}

// note records the packets that an op sends.
func (h *rehearsal) note(in *instr) {
	for i := range in.moves {
		for _, pl := range in.moves[i].Dst {
			for k := pl.Index; pl.Plane == plan.PacketPlane && k < pl.Index+pl.Size; k++ {
				h.writers[pl.Rank][k] = append(h.writers[pl.Rank][k], in)
			}
		}
	}
}

// step runs an op unless it must wait. A reader of packets waits for all packets that are sent to its chunks, whatever
// part of them it reads. This includes packets that it sends itself, since an op begins only when all its packets have
// arrived.
func (h *rehearsal) step(rank, block int, in *instr) bool {
	if in.op.ChannelType == plan.HookChannel {
		return false // what the caller waits for is not known here
	}
	switch in.code {
	case plan.CodeLoop, plan.CodeEndLoop, plan.CodeAcquire, plan.CodeRelease:
		return false // here, one order proves nothing about another; such plans are not merged
	case plan.CodeWait:
		for k, l := range in.links {
			if h.inbound[rank][l] < in.times[k] {
				return false
			}
		}
		for k, l := range in.links {
			h.inbound[rank][l] -= in.times[k]
		}
	case plan.CodeBarrier:
		id := in.op.BarrierID
		if h.target[in] == 0 {
			h.met[rank][[2]int{block, id}]++
			h.target[in] = h.met[rank][[2]int{block, id}] * in.op.NumThreadBlocks
			h.arrived[rank][id]++
		}
		return h.arrived[rank][id] >= h.target[in]
	case plan.CodeData:
		for i := range in.moves {
			for _, pl := range in.moves[i].Src {
				for k := pl.Index; in.waits && pl.Plane == plan.PacketPlane && k < pl.Index+pl.Size; k++ {
					for _, w := range h.writers[pl.Rank][k] {
						if !h.done[w] {
							return false
						}
					}
				}
			}
		}
		h.done[in] = true
	}
	if in.code == plan.CodeSignal || in.signal {
		prog := h.programs[rank]
		for k, l := range in.links {
			h.inbound[prog.peer[l]][prog.pair[l]] += in.times[k]
		}
	}
	return true
}
