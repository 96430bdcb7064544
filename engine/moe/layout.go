package moe

import (
	"math"
	"unsafe"

	"github.com/goccl/goccl/device"
)

// The kinds of operations that move rows. Each has its own region and its own count.
const (
	kindDispatch = iota
	kindCombine
	kinds
	kindNotify = kinds
)

// numbers are the numbers of the latest operation of each kind.
type numbers [kinds + 1]uint32

// settled is the number that is stored when operation n has ended, as in kernels/moe/memory.cuh.
func settled(n uint32) uint32 {
	if n == math.MaxUint32 {
		return 1
	}
	return n
}

// arena is the layout of a rank's arena, which peers write:
//
//	0              door        host device: the owner sleeps here, its peers wake it
//	64             left        host device: a fault.Exit, not 0 once the owner has left
//	128            ended       [kind][peer] lines: the latest operation that the peer has ended; layout ZeroCopy: and the
//	                           latest combine that it has started
//	notes          [parity][source] what Notify sends: words of 8 bytes, a value and a flag
//	weights        [source][token][k] the same, for combine in the layout Experts
//	flags          [kind][source][piece] words: the operation whose piece is there
//	lines          [kind][source] rows as packets; never anything else
//	rows           [kind][source] plain rows; layout ZeroCopy: of dispatch the elements of the received rows, from all
//	               sources, behind what all could send the rest of each row; of combine the results
type arena struct {
	ranks      int
	tokens     int // of a rank, at most
	lineTokens int // of a rank that sends packets, at most
	lineStride int64
	rowStride  int64
}

const (
	offDoor   = 0
	offLeft   = 64
	offEnded  = 128
	wordBytes = 8
	noteWords = 32 // before the lists of a note: signature, tokens, counts by rank
)

func newArena(ranks int, bytes int64, tokens, lineTokens int) arena {
	a := arena{ranks: ranks, tokens: tokens, lineTokens: lineTokens}
	parts := int64(kinds * ranks)
	a.lineStride = (bytes / 8 / parts) &^ 127
	a.rowStride = (bytes - bytes/8) / parts &^ 127
	return a
}

func (a *arena) ended(kind, peer int) int64 { return offEnded + int64(kind*MaxRanks+peer)*64 }

func (a *arena) noteStride() int64 {
	return line(int64(noteWords+MaxExperts+a.tokens*MaxTopK/2) * wordBytes)
}

func (a *arena) note(parity uint32, source int) int64 {
	return offEnded + kinds*MaxRanks*64 + (int64(parity)*int64(a.ranks)+int64(source))*a.noteStride()
}

func (a *arena) weightStride() int64 { return line(int64(a.lineTokens) * MaxTopK * wordBytes) }

func (a *arena) weights(source int) int64 { return a.note(2, 0) + int64(source)*a.weightStride() }

func (a *arena) flagStride() int64 { return line(int64(a.tokens/PieceTokens+1) * 4) }

func (a *arena) flags(kind, source int) int64 {
	return a.weights(a.ranks) + int64(kind*a.ranks+source)*a.flagStride()
}

func (a *arena) lines(kind, source int) int64 {
	return a.flags(kinds, 0) + int64(kind*a.ranks+source)*a.lineStride
}

func (a *arena) rows(kind, source int) int64 {
	return a.lines(kinds, 0) + int64(kind*a.ranks+source)*a.rowStride
}

func (a *arena) bytes() int64 { return a.rows(kinds, 0) }

// most is the largest number of tokens of a rank whose rows have a format.
func (a *arena) most(r row) int { return min(a.tokens, int(a.rowStride/r.slot())) }

// rest is where a dispatch in the layout ZeroCopy brings what a source's rows have behind their elements.
func (a *arena) rest(r row, source int) int64 {
	most := int64(a.most(r))
	return a.rows(kindDispatch, 0) + int64(a.ranks)*most*int64(r.data) + int64(source)*most*(r.slot()-int64(r.data))
}

// packets is the largest number of tokens of a rank that sends packets.
func (a *arena) packets(r row) int { return min(a.lineTokens, int(a.lineStride/r.lines())) }

func line(n int64) int64 { return (n + 127) &^ 127 }

// handle is the layout of a Handle:
//
//	0      tokens        [16] int32   of each source
//	64     counts        [16] int32   rows of each source
//	128    total         int32        rows of all
//	132    mask          uint32       the mask (mask.go) for which it was filled
//	192    prefix        [R][R] int32 rows that ranks 0…i send to rank j
//	totals [E] int32                  rows of each local expert
//	ranges [E][R] int64               layout Experts: begin << 32 | count of a source's rows
//	routes [tokens] route
//	places rows: [R][tokens] int32, place of a token among the rows of its source, or -1
//	       experts: [R][lineTokens][K] int32, place among the rows of its expert and source, with the expert, or -1
//	sent   layout ZeroCopy: [R][tokens] int32, place of a token among this rank's rows at a rank
type handle struct {
	shape  Shape
	ranks  int
	tokens int
}

const (
	offTokens = 0
	offCounts = 64
	offTotal  = 128
	offMask   = 132
	offPrefix = 192
	offTotals = offPrefix + MaxRanks*MaxRanks*4
	// An entry of places in the layout Experts holds the expert in its upper bits.
	placeBits = 20
)

// route says where a token goes: ranks, in the order of its list, four bits each.
type route struct {
	order uint64
	mask  uint32
	_     uint32
}

func (h *handle) local() int { return h.shape.local(h.ranks) }

func (h *handle) ranges() int64 { return line(offTotals + int64(h.local())*4) }

func (h *handle) routes() int64 { return line(h.ranges() + int64(h.local()*h.ranks)*8) }

func (h *handle) places() int64 {
	return line(h.routes() + int64(h.tokens)*int64(unsafe.Sizeof(route{})))
}

func (h *handle) entries() int {
	if h.shape.Layout == Experts {
		return h.shape.TopK
	}
	return 1
}

func (h *handle) sent() int64 { return h.places() + int64(h.ranks*h.tokens*h.entries())*4 }

func (h *handle) bytes() int64 {
	if h.shape.Layout == ZeroCopy {
		return h.sent() + int64(h.ranks*h.tokens)*4
	}
	return h.sent()
}

// at returns n values at an offset of host memory.
func at[T any](p device.Ptr, offset int64, n int) []T {
	if n == 0 {
		return nil
	}
	var zero T
	bytes := device.Bytes(p.Add(offset), int64(n)*int64(unsafe.Sizeof(zero)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(bytes))), n)
}
