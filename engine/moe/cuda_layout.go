package moe

import "github.com/goccl/goccl/internal/plain"

// The parameters of the kernels are in zz_layout.go, from kernels/moe.
//
//go:generate go run ../../tools/layouts

// head fills in what all kernels have.
func (e *cudaEngine) head(h *Handle, kind int) headArgs {
	b := e.b
	l := handle{h.Shape, b.size, b.places(&h.Shape)}
	a := headArgs{abort: uint64(e.launcher.Block()),
		state: e.state(kind), replicas: e.replicas(),
		rank: uint32(b.rank), nranks: uint32(b.size), tokens: uint32(h.Tokens), places: uint32(l.tokens),
		byExpert: plain.Bit[uint32](h.Layout == Experts), zeroCopy: plain.Bit[uint32](h.Layout == ZeroCopy),
		entries: uint32(h.entries()), topK: uint32(h.TopK), local: uint32(l.local())}
	for r := range b.size {
		a.arena[r] = uint64(b.memory.Ptr[r])
	}
	at := func(offset int64) uint64 { return uint64(h.Memory.Add(offset)) }
	a.sourceTokens, a.counts, a.total, a.prefix = at(offTokens), at(offCounts), at(offTotal), at(offPrefix)
	a.totals, a.ranges, a.routes, a.place = at(offTotals), at(l.ranges()), at(l.routes()), at(l.places())
	a.sent = at(l.sent())
	if kind < kinds {
		a.ended = uint64(b.arena.ended(kind, 0))
	}
	return a
}

func (e *cudaEngine) row(r row, kind int) rowArgs {
	a := &e.b.arena
	return rowArgs{data: uint32(r.data), scales: uint32(r.scales), lists: uint32(r.lists), bytes: uint32(r.bytes()),
		rows:  region{uint64(a.rows(kind, 0)), uint64(a.rowStride)},
		lines: region{uint64(a.lines(kind, 0)), uint64(a.lineStride)},
		flags: region{uint64(a.flags(kind, 0)), uint64(a.flagStride())},
		rests: region{uint64(a.rest(r, 0)), uint64(a.rest(r, 1) - a.rest(r, 0))},
		slot:  uint64(r.slot()), lineSlot: uint64(r.lines()), packets: uint32(a.packets(r))}
}
