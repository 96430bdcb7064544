package moe

import (
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// handle checks a Handle and returns its layout.
func (b *Buffer) handle(h *Handle) (handle, error) {
	if err := h.validate(b.size); err != nil {
		return handle{}, err
	}
	most := b.places(&h.Shape)
	switch {
	case h.Tokens < 0 || h.Tokens > most:
		return handle{}, bad("%d tokens: the buffer is for up to %d", h.Tokens, most)
	case h.Memory == 0 || h.Memory&15 != 0:
		return handle{}, bad("a handle at %#x: want HandleBytes of the device's memory, at a multiple of 16", h.Memory)
	}
	return handle{h.Shape, b.size, most}, nil
}

// places is the number of tokens of each rank for which a handle has places.
func (b *Buffer) places(s *Shape) int {
	if s.Layout == Experts {
		return b.arena.lineTokens
	}
	return b.arena.tokens
}

// HandleBytes is the size of a Handle's memory.
func (b *Buffer) HandleBytes(s Shape) (int64, error) {
	h, err := b.handle(&Handle{Shape: s, Memory: 16})
	if err != nil {
		return 0, err
	}
	return h.bytes(), nil
}

// HandleOffsets are the places of what callers may read in a Handle, once the Notify has ended.
type HandleOffsets struct {
	Counts int64 // [ranks] int32: rows from each rank
	Total  int64 // int32: rows from all ranks
	Prefix int64 // [ranks][ranks] int32: rows that ranks 0…i send to rank j
	Totals int64 // [local experts] int32: rows for each
	Ranges int64 // layout Experts: [local experts][ranks] int64, begin << 32 | count
	// Layout ZeroCopy, in the device's memory: where rows come, RecvX of a dispatch, and where results are taken, X of a
	// combine.
	Received, Results device.Ptr
}

// Offsets of a handle.
func (b *Buffer) Offsets(s Shape) HandleOffsets {
	h := handle{s, b.size, 0}
	o := HandleOffsets{offCounts, offTotal, offPrefix, offTotals, h.ranges(), 0, 0}
	if s.Layout == ZeroCopy {
		own := b.memory.Ptr[b.rank]
		o.Received, o.Results = own.Add(b.arena.rows(kindDispatch, 0)), own.Add(b.arena.rows(kindCombine, 0))
	}
	return o
}

type buffer struct {
	name  string
	at    device.Ptr
	align device.Ptr
	need  bool
}

func check(list ...buffer) error {
	for _, x := range list {
		if x.need && x.at == 0 {
			return bad("%s is NULL", x.name)
		}
		if x.at&(x.align-1) != 0 {
			return bad("%s is at %#x, not at a multiple of %d", x.name, x.at, x.align)
		}
	}
	return nil
}

func (b *Buffer) checkNotify(a *NotifyArgs) error {
	if _, err := b.handle(&a.Handle); err != nil {
		return err
	}
	some := a.Tokens > 0
	return check(buffer{"TopKIndex", a.TopKIndex, 8, some && a.TopK > 0},
		buffer{"InRank", a.InRank, 1, some && a.TopK == 0}, buffer{"Counts", a.Counts, 4, false})
}

func (b *Buffer) checkDispatch(a *DispatchArgs) error {
	if _, err := b.handle(&a.Handle); err != nil {
		return err
	}
	some, rows := a.Tokens > 0, a.RecvRows > 0
	switch {
	case a.Type != datatype.Bfloat16 && a.Type != datatype.Float8E4M3:
		return bad("rows of %v: want bfloat16 or float8e4m3", a.Type)
	case a.Quantize && a.Type != datatype.Bfloat16:
		return bad("Quantize takes rows of bfloat16, not of %v", a.Type)
	case a.sent() == datatype.Float8E4M3 && a.Hidden%ScaleElements != 0:
		return bad("float8e4m3 with %d elements: want a multiple of %d", a.Hidden, ScaleElements)
	case a.Lists && (a.Layout == Experts || a.TopK == 0):
		return bad("lists go with the layouts Rows and ZeroCopy, and TopK")
	case a.Layout == ZeroCopy && a.Quantize:
		return bad("Quantize goes with the layouts Rows and Experts: give rows of float8e4m3 and their scales")
	case a.Layout == ZeroCopy && rows && a.RecvX != b.Offsets(a.Shape).Received:
		return bad("RecvX is %#x: in the layout ZeroCopy rows come to HandleOffsets.Received, %#x", a.RecvX,
			b.Offsets(a.Shape).Received)
	case a.RecvRows < 0 || !blocksOK(a.Blocks):
		return bad("RecvRows is %d, Blocks %d: want 0, or 2 to %d blocks", a.RecvRows, a.Blocks, maxBlocks)
	}
	if err := b.fits(a.row(a.sent(), a.Lists), a.Tokens); err != nil {
		return err
	}
	eight := a.sent() == datatype.Float8E4M3
	return check(buffer{"X", a.X, 16, some}, buffer{"Scales", a.Scales, 4, some && a.Type == datatype.Float8E4M3},
		buffer{"Index", a.Index, 8, a.Lists && some}, buffer{"Weights", a.Weights, 4, false},
		buffer{"RecvX", a.RecvX, 16, rows}, buffer{"RecvScales", a.RecvScales, 4, rows && eight},
		buffer{"RecvIndex", a.RecvIndex, 8, a.Lists && rows}, buffer{"RecvWeights", a.RecvWeights, 4, false},
		buffer{"RecvSource", a.RecvSource, 4, false})
}

func (b *Buffer) checkCombine(a *CombineArgs) error {
	if _, err := b.handle(&a.Handle); err != nil {
		return err
	}
	some, experts := a.Tokens > 0, a.Layout == Experts
	if a.Rows < 0 || !blocksOK(a.Blocks) {
		return bad("Rows is %d, Blocks %d: want 0, or 2 to %d blocks", a.Rows, a.Blocks, maxBlocks)
	}
	switch {
	case (a.OutWeights != 0 || a.Weights != 0) && a.Layout == ZeroCopy:
		return bad("weights do not return in the layout ZeroCopy: take the layout Rows")
	case a.OutWeights != 0 && (experts || a.TopK == 0):
		return bad("OutWeights go with the layout Rows and TopK")
	case a.Layout == ZeroCopy && a.Rows > 0 && a.X != b.Offsets(a.Shape).Results:
		return bad("X is %#x: in the layout ZeroCopy results are taken at HandleOffsets.Results, %#x", a.X,
			b.Offsets(a.Shape).Results)
	}
	if err := b.fits(a.returned(), a.Tokens); err != nil {
		return err
	}
	return check(buffer{"X", a.X, 16, a.Rows > 0}, buffer{"Out", a.Out, 16, some},
		buffer{"Bias[0]", a.Bias[0], 16, false}, buffer{"Bias[1]", a.Bias[1], 16, false},
		buffer{"Weights", a.Weights, 4, experts && some || a.OutWeights != 0 && a.Rows > 0},
		buffer{"Index", a.Index, 8, experts && some}, buffer{"OutWeights", a.OutWeights, 4, false})
}

// fits checks a rank's tokens against the arena.
func (b *Buffer) fits(r row, tokens int) error {
	if most := b.arena.most(r); tokens > most {
		return bad("%d tokens of %d bytes: the buffer has room for %d; make one of more bytes (SizeFor)", tokens, r.bytes(),
			most)
	}
	return nil
}

// returned is the format of rows of a combine.
func (a *CombineArgs) returned() row { return row{data: 2 * a.Hidden, lists: eights(4 * a.lists())} }

// lists is TopK if weights come back, else 0. All ranks must ask for the same; one that has no rows has no Weights.
func (a *CombineArgs) lists() int {
	if (a.Weights != 0 || a.OutWeights != 0) && a.Layout == Rows {
		return a.TopK
	}
	return 0
}

func blocksOK(n int) bool { return n == 0 || n >= 2 && n <= maxBlocks }
