package moe

import (
	"unsafe"

	"github.com/goccl/goccl/internal/plain"
)

// The parameters of the kernels: kernels/moe. C reads them, so they hold no Go pointers.

type region struct{ base, stride uint64 }

type headArgs struct {
	_                                   uint64 // the ticket
	arena                               [MaxRanks]uint64
	abort                               uint64
	state                               uint64
	rank, nranks, tokens, places        uint32
	byExpert, entries, topK, local      uint32
	sourceTokens, counts, total, prefix uint64
	totals, ranges, routes, place       uint64
	ended, replicas, sent               uint64
	zeroCopy, _                         uint32
}

type rowArgs struct {
	data, scales, lists, bytes uint32
	rows, lines, flags, rests  region
	slot, lineSlot             uint64
	packets, stage, stages, _  uint32
}

type notifyArgs struct {
	headArgs
	notes                       region
	parityStride                uint64
	index, inRank, expertCounts uint64
	signature, _                uint32
}

type dispatchArgs struct {
	headArgs
	row                                                   rowArgs
	x, scales, xStride, scaleStride                       uint64
	index, weights                                        uint64
	recvX, recvScales, recvIndex, recvWeights, recvSource uint64
	recvRows                                              uint64
	groups, senders                                       uint32
}

type combineArgs struct {
	headArgs
	row             rowArgs
	x, rows         uint64
	weights         uint64
	bias            [2]uint64
	out, outWeights uint64
	weightWords     region
	hidden, senders uint32
}

type quantizeArgs struct {
	_                             uint64 // the ticket
	x, out, stride                uint64
	tokens, groups, powerOfTwo, _ uint32
}

type countArgs struct {
	_                             uint64 // the ticket
	index, ranks, experts, inRank uint64
	state, replicas               uint64
	tokens, topK, nranks, local   uint32
}

var (
	_ = [1]struct{}{}[unsafe.Sizeof(headArgs{})-280]
	_ = [1]struct{}{}[unsafe.Sizeof(rowArgs{})-112]
	_ = [1]struct{}{}[unsafe.Sizeof(notifyArgs{})-336]
	_ = [1]struct{}{}[unsafe.Sizeof(dispatchArgs{})-496]
	_ = [1]struct{}{}[unsafe.Sizeof(combineArgs{})-472]
	_ = [1]struct{}{}[unsafe.Sizeof(quantizeArgs{})-48]
	_ = [1]struct{}{}[unsafe.Sizeof(countArgs{})-72]
)

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
