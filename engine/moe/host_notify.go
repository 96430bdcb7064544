package moe

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
)

// none is an entry of a list that concerns no expert of the receiver.
const none = 0xffff

// note is what a rank writes to a peer in Notify. On the host the first word is stored last.
type note struct {
	words []uint32
	lists []uint16
}

const (
	noteNumber    = 0 // of the Notify
	noteSignature = 1
	noteTokens    = 2
	noteCounts    = 3 // tokens of the source that go to each rank
	noteTotals    = noteCounts + MaxRanks
	noteLists     = noteTotals + MaxExperts
)

func (e *hostEngine) noteOf(rank int, n uint32, source int) note {
	p, o := e.b.memory.Ptr[rank], e.b.arena.note(n&1, source)
	return note{at[uint32](p, o, noteLists), at[uint16](p, o+noteLists*4, e.b.arena.tokens*MaxTopK)}
}

func (e *hostEngine) notify(seq uint64, args *NotifyArgs) error {
	a := *args
	return e.launch("moe_notify", seq, a.Stream, func(t *task) error { return t.notify(&a) })
}

// notify:
//
//  1. list   the ranks of each token, in the order of its experts
//  2. send   to each rank: the experts there of each token
//  3. learn  from each rank's note: the place of each row
func (t *task) notify(a *NotifyArgs) error {
	b, h := t.b, handle{a.Shape, t.b.size, t.b.places(&a.Shape)}
	n := t.next(kindNotify)
	entry := t.entryOf(a)
	routes := at[route](a.Memory, h.routes(), a.Tokens)
	var counts [MaxRanks]uint32
	for i := range routes {
		routes[i] = routeOf(i, h.shape.entries(), entry)
		for p := range b.size {
			if routes[i].mask>>p&1 != 0 && a.Layout == ZeroCopy {
				at[int32](a.Memory, h.sent()+int64(p*h.tokens+i)*4, 1)[0] = int32(counts[p])
			}
			counts[p] += routes[i].mask >> p & 1
		}
	}
	local := h.local()
	totals := at[int32](a.Counts, 0, count(a.Counts != 0, a.Experts))
	for p := range t.peers() {
		m := t.noteOf(p, n, b.rank)
		m.words[noteSignature], m.words[noteTokens] = a.signature(kindNotify, 0), uint32(a.Tokens)
		copy(m.words[noteCounts:], counts[:])
		clear(m.words[noteTotals : noteTotals+local])
		for x := range totals[:len(totals)/b.size] {
			m.words[noteTotals+x] = uint32(totals[p*local+x])
		}
		for i := range a.Tokens * h.shape.entries() {
			m.lists[i] = none
			if rank, expert := entry(i/h.shape.entries(), i%h.shape.entries()); rank&(1<<p) != 0 {
				m.lists[i] = uint16(expert)
			}
		}
		t.word(p, b.arena.note(n&1, b.rank)).Store(n)
		t.door(p).Wake()
	}
	return t.learn(a, &h, n)
}

func count(some bool, n int) int {
	if some {
		return n
	}
	return 0
}

// entryOf returns the function that gives the ranks of entry k of token i's list, as a set, and the expert's number
// there. Without experts, entry 0 is all ranks of the token.
func (t *task) entryOf(a *NotifyArgs) func(i, k int) (set uint32, expert int) {
	ranks := t.b.size
	if a.TopK == 0 {
		in := device.Bytes(a.InRank, int64(a.Tokens*ranks))
		return func(i, _ int) (set uint32, _ int) {
			for p, x := range in[i*ranks:][:ranks] {
				if x != 0 && !t.mask.has(p) {
					set |= 1 << p
				}
			}
			return set, 0
		}
	}
	index, local := at[int64](a.TopKIndex, 0, a.Tokens*a.TopK), a.local(ranks)
	return func(i, k int) (uint32, int) {
		x := t.expert(&a.Shape, index[i*a.TopK+k])
		if x < 0 {
			return 0, 0
		}
		return 1 << (int(x) / local), int(x) % local
	}
}

// routeOf is step 1. Without experts the ranks are in ascending order.
func routeOf(i, entries int, entry func(i, k int) (uint32, int)) (r route) {
	at := 0
	for k := range entries {
		set, _ := entry(i, k)
		for set &^= r.mask; set != 0; set &= set - 1 {
			r.order |= uint64(first(set)) << (4 * at)
			r.mask |= set & -set
			at++
		}
	}
	return r
}

// learn is step 3.
func (t *task) learn(a *NotifyArgs, h *handle, n uint32) error {
	b, local := t.b, h.local()
	tokens, counts := at[int32](a.Memory, offTokens, MaxRanks), at[int32](a.Memory, offCounts, MaxRanks)
	prefix := at[int32](a.Memory, offPrefix, b.size*b.size)
	ranges := at[int64](a.Memory, h.ranges(), local*b.size)
	clear(ranges)
	total := int32(0)
	for s := range b.size {
		row := prefix[s*b.size:][:b.size]
		if tokens[s], counts[s] = 0, 0; s > 0 {
			copy(row, prefix[(s-1)*b.size:])
		} else {
			clear(row)
		}
		if t.mask.has(s) {
			continue
		}
		w := t.word(b.rank, b.arena.note(n&1, s))
		if err := t.await(s, "its note", func() bool { return w.Load() == n }); err != nil {
			return err
		}
		m := t.noteOf(b.rank, n, s)
		if m.words[noteSignature] != a.signature(kindNotify, 0) || int(m.words[noteTokens]) > h.tokens {
			return t.error(s, fmt.Errorf("%w: rank %d calls an operation of another shape", collective.ErrMismatch, s))
		}
		tokens[s], counts[s] = int32(m.words[noteTokens]), int32(m.words[noteCounts+b.rank])
		total += counts[s]
		for p := range b.size {
			row[p] += int32(m.words[noteCounts+p])
		}
		t.placeRows(a, h, s, &m, ranges)
		if a.TopK == 0 {
			for x := range local {
				ranges[x*b.size+s] = int64(m.words[noteTotals+x])
			}
		}
	}
	totals := at[int32](a.Memory, offTotals, local)
	for x := range local {
		begin := int64(0)
		for s := range b.size {
			c := ranges[x*b.size+s]
			ranges[x*b.size+s] = begin<<32 | c
			begin += c
		}
		totals[x] = int32(begin)
	}
	at[int32](a.Memory, offTotal, 1)[0] = total
	at[word](a.Memory, offMask, 1)[0] = t.mask
	return nil
}

// placeRows stores the places of the rows of source s, and counts them in the ranges of the experts.
func (t *task) placeRows(a *NotifyArgs, h *handle, s int, m *note, ranges []int64) {
	size, k, row := t.b.size, h.shape.entries(), int32(0)
	tokens := int(m.words[noteTokens])
	places := at[int32](a.Memory, h.places()+int64(s*h.tokens*h.entries())*4, tokens*h.entries())
	for i := range tokens {
		here := false
		list := m.lists[i*k : (i+1)*k]
		for j, x := range list {
			place := int32(-1)
			if x != none {
				here = true
				if !slices.Contains(list[:j], x) { // a repeated expert shares the place of its first mention
					ranges[int(x)*size+s]++
				}
				place = int32(x)<<placeBits | int32(ranges[int(x)*size+s]-1)
			}
			if a.Layout == Experts {
				places[i*k+j] = place
			}
		}
		if a.Layout != Experts {
			places[i] = -1
			if here {
				places[i] = row
				row++
			}
		}
	}
}
