package executor

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

// Plans are written for GPUs: many thread blocks do the same to neighbouring data, and each sends its own signals. On
// the host, a worker runs all blocks of its rank, so one block that does all of it is faster: with, say, an eighth of
// the signals and copies of eight times the size.
//
//  1. group     blocks of a rank whose ops have the same kinds, one by one
//  2. merge     op i of all blocks of a group into one op: it has all their moves, and the sum of their signals on each
//     link
//  3. join      moves of neighbouring chunks, and the slices of one chunk, into one move
//  4. rehearse  run the merged programs of all ranks, without data; if they get stuck, all ranks keep the plan's own
//     blocks
//
// A run of merged programs is one of the interleavings of the plan's own blocks, so everything that the verifier has
// proved for all interleavings holds for it, except termination: a merged op waits for everything that any of its parts
// waits for, and part of that may depend on something that another part sends. Hence step 4. One rehearsal is enough,
// because counters and packets are never taken back and each has one consumer: if one order ends, all orders end. This
// also holds when only some ranks run merged programs.

// coalesce performs steps 1 to 3 for one rank.
//
// It does not merge blocks with a pipeline, a semaphore or a hook. A plan that has such a block is not merged at all
// (rehearsal.step).
func (prog *program) coalesce() {
	groups, order := map[string][]int{}, []string(nil)
	lists := make([][]instr, len(prog.blocks))
	for b := range prog.blocks {
		list := slices.DeleteFunc(slices.Clone(prog.blocks[b]),
			func(in instr) bool { return in.code == plan.CodeNop || in.code == plan.CodeFlush })
		lists[b] = list
		key := kinds(list)
		if key == "" { // cannot be merged: alone in a group, under a unique key
			key = string(binary.LittleEndian.AppendUint64([]byte{0xff}, uint64(b)))
		}
		if _, ok := groups[key]; !ok {
			order = append(order, key)
		}
		groups[key] = append(groups[key], b)
	}
	for _, key := range order {
		members := groups[key]
		if len(members) > 1 && closed(lists, members) {
			lists[members[0]] = merge(lists, members)
			members = members[:1]
		}
		for _, b := range members {
			prog.merged = append(prog.merged, lists[b])
			prog.mergedAt = append(prog.mergedAt, b)
		}
	}
}

// kinds returns a key that is equal for blocks that can be merged, or "" for a block that cannot be merged (see
// rehearsal.step).
func kinds(list []instr) string {
	var key []byte
	for i := range list {
		in := &list[i]
		switch in.code {
		case plan.CodeAcquire, plan.CodeRelease, plan.CodeLoop, plan.CodeEndLoop:
			return ""
		}
		if in.op.ChannelType == plan.HookChannel {
			return ""
		}
		key = append(key, byte(in.code), flag(in.raw)|flag(in.signal)<<1|flag(in.fixed)<<2)
		if in.fixed {
			key = binary.LittleEndian.AppendUint64(key, uint64(len(in.op.ReduceOp)))
			key = append(key, in.op.ReduceOp...)
		}
		if in.code == plan.CodeBarrier {
			key = binary.LittleEndian.AppendUint64(key, uint64(in.op.BarrierID))
		}
	}
	return string(key)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// coalesced builds the merged program of one rank if merging pays and the rehearsal ends. All ranks of a plan get the
// same result.
func coalesced(p *plan.Plan, hash [sha256.Size]byte, prog *program) error {
	if prog.hosts != nil {
		hash = sha256.Sum256(fmt.Append(hash[:], prog.hosts))
	}
	v := verificationOf(hash)
	var err error
	v.merge.Do(func() {
		programs := make([]*program, len(p.GPUs))
		gain := false
		for r := range p.GPUs {
			if programs[r], err = compile(p, r, prog.hosts); err != nil {
				return
			}
			programs[r].coalesce()
			gain = gain || len(programs[r].merged) < len(programs[r].blocks)
		}
		v.merges = gain && rehearse(programs)
	})
	if v.merges {
		prog.coalesce()
	}
	return err
}

// closed reports whether every barrier of these blocks has exactly these blocks as its participants.
func closed(lists [][]instr, members []int) bool {
	for _, b := range members {
		for i := range lists[b] {
			if in := &lists[b][i]; in.code == plan.CodeBarrier && in.op.NumThreadBlocks != len(members) {
				return false
			}
		}
	}
	return true
}

// merge is step 2. It drops barriers: the merged block runs op after op, which already orders its members.
func merge(lists [][]instr, members []int) []instr {
	var out []instr
	for i, first := range lists[members[0]] {
		if first.code == plan.CodeBarrier {
			continue
		}
		m := first
		m.moves, m.links, m.times, m.io, m.wakes = nil, nil, nil, nil, nil
		for _, b := range members {
			in := &lists[b][i]
			m.moves = append(m.moves, in.moves...)
			m.waits, m.remote = m.waits || in.waits, m.remote || in.remote
			for k, l := range in.links {
				if at := slices.Index(m.links, l); at >= 0 {
					m.times[at] += in.times[k]
				} else {
					m.links, m.times = append(m.links, l), append(m.times, in.times[k])
				}
			}
			for _, p := range in.io {
				if !slices.Contains(m.io, p) {
					m.io = append(m.io, p)
				}
			}
			for _, p := range in.wakes {
				if !slices.Contains(m.wakes, p) {
					m.wakes = append(m.wakes, p)
				}
			}
		}
		m.moves = join(m.moves)
		out = append(out, m)
	}
	return out
}

// join is step 3. Moves of different blocks are independent, or they would race. Moves of one op may depend on each
// other; then join keeps the order of all moves.
func join(moves []move) []move {
	moves = whole(moves)
	for i := range moves {
		for k := range moves {
			if i != k && depends(&moves[i], &moves[k]) {
				return moves
			}
		}
	}
	type lane struct {
		key   string
		moves []move
	}
	var lanes []lane
	for _, m := range moves {
		key := m.key(false)
		at := slices.IndexFunc(lanes, func(l lane) bool { return l.key == key })
		if at < 0 {
			at = len(lanes)
			lanes = append(lanes, lane{key: key})
		}
		lanes[at].moves = append(lanes[at].moves, m)
	}
	out := moves[:0:0]
	for _, l := range lanes {
		slices.SortStableFunc(l.moves, func(a, b move) int { return cmp.Compare(a.Dst[0].Index, b.Dst[0].Index) })
		for _, m := range l.moves {
			if n := len(out); n > 0 && out[n-1].follows(&m) {
				out[n-1] = out[n-1].with(&m)
				continue
			}
			out = append(out, m)
		}
	}
	return fan(out)
}

// fan combines copies from the same source into one move, so that the source is read once.
func fan(moves []move) []move {
	out := moves[:0:0]
	for _, m := range moves {
		at := -1
		if len(m.Src) == 1 {
			at = slices.IndexFunc(out, func(o move) bool {
				return len(o.Src) == 1 && o.Src[0] == m.Src[0] && o.Bound == m.Bound &&
					o.slice == m.slice
			})
		}
		if at < 0 {
			out = append(out, m)
			continue
		}
		out[at].Dst = append(slices.Clip(out[at].Dst), m.Dst...)
	}
	return out
}

// whole replaces the slices of a move by the whole move when all slices are present.
func whole(moves []move) []move {
	seen := map[string][]int{}
	for i := range moves {
		if moves[i].slice.Count > 1 {
			key := moves[i].key(true)
			seen[key] = append(seen[key], i)
		}
	}
	out := moves[:0:0]
	for i := range moves {
		m := moves[i]
		if m.slice.Count > 1 {
			parts := seen[m.key(true)]
			complete := len(parts) == m.slice.Count
			for k := range m.slice.Count {
				complete = complete && slices.ContainsFunc(parts, func(p int) bool { return moves[p].slice.Index == k })
			}
			if complete && parts[0] != i {
				continue
			}
			if complete {
				m.slice = plan.Slice{}
			}
		}
		out = append(out, m)
	}
	return out
}

// key identifies the memories between which m moves data. With exact it also identifies the chunks and the number of
// slices.
func (m *move) key(exact bool) string {
	var b []byte
	for _, side := range [2][]plan.Place{m.Src, m.Dst} {
		b = binary.LittleEndian.AppendUint64(b, uint64(len(side)))
		for _, pl := range side {
			b = append(binary.LittleEndian.AppendUint64(b, uint64(pl.Rank)), byte(pl.Plane))
			if exact {
				b = binary.LittleEndian.AppendUint64(b, uint64(pl.Index))
				b = binary.LittleEndian.AppendUint64(b, uint64(pl.Size))
			}
		}
	}
	if exact {
		b = binary.LittleEndian.AppendUint64(b, uint64(m.slice.Count))
	}
	return string(b)
}

// depends reports whether b reads or writes what a writes.
func depends(a, b *move) bool {
	for i := range a.Dst {
		for _, side := range [2][]plan.Place{b.Src, b.Dst} {
			for k := range side {
				if overlap(&a.Dst[i], &side[k]) {
					return true
				}
			}
		}
	}
	return false
}

func overlap(a, b *plan.Place) bool {
	return a.Rank == b.Rank && a.Plane == b.Plane && a.Index < b.Index+b.Size && b.Index < a.Index+a.Size
}

// follows reports whether next is between the same memories as m and each of its places begins where m's ends.
func (m *move) follows(next *move) bool {
	if m.slice.Count > 1 || next.slice.Count > 1 || m.Bound != nil || next.Bound != nil ||
		m.key(false) != next.key(false) {
		return false
	}
	adjacent := func(a, b []plan.Place) bool {
		for i := range a {
			if a[i].Index+a[i].Size != b[i].Index {
				return false
			}
		}
		return true
	}
	return adjacent(m.Src, next.Src) && adjacent(m.Dst, next.Dst)
}

func (m *move) with(next *move) move {
	grow := func(a, b []plan.Place) []plan.Place {
		a = slices.Clone(a)
		for i := range a {
			a[i].Size += b[i].Size
		}
		return a
	}
	return move{Move: plan.Move{Src: grow(m.Src, next.Src), Dst: grow(m.Dst, next.Dst), Entry: m.Entry}, slice: m.slice}
}
