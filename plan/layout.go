package plan

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
)

// Layout turns chunks into bytes, for one plan and one message size. All address computation is here; the interpreter,
// the executors and the verifier use it.
//
// Input and output consist of blocks of Block bytes, each divided into Period chunks:
//
//	allreduce, broadcast, reduce, sendrecv    one block; its size is the message
//	allgather                                 input one block, output one block per rank
//	reducescatter                             input one block per rank, output one block
//	alltoall                                  one block per rank on both sides
//	user-defined                              one block when all chunk counts are equal; else see EvenOnly
//
// The size of a chunk is Chunk bytes: the unit Alignment times the rounded-up number of units per chunk. So chunk k of
// a block starts at k·Chunk, and the last chunks of a block may be short or empty when the message does not divide
// evenly. Scratch chunks are never short. It follows that every op preserves the offset of a byte within its chunk,
// whatever the message size. The verifier relies on this.
//
// When the message divides evenly (Even), all addresses equal the ones that MSCCL++'s executor uses, which accepts no
// other message.
//
// All arithmetic is 64-bit and checked: NewLayout rejects a message whose buffers would exceed Capacity.MaxOffset, and
// no method overflows after that.
type Layout struct {
	Message   int64 // bytes of the message: input bytes, or output bytes for an all-gather
	Block     int64
	Chunk     int64
	Period    int
	Alignment int64

	plan   *Plan
	custom bool // the chunks of a user-defined collective do not form blocks
}

// ErrMessage is the class of NewLayout's errors: the plan does not accept a message of this size.
var ErrMessage = fmt.Errorf("message size not accepted")

// Blocks returns the number of blocks in the message and the number of chunks in a block.
func (p *Plan) Blocks() (blocks, period int, custom bool) {
	n := len(p.GPUs)
	switch p.Collective {
	case AllGather:
		return n, p.ChunkCount(0, Input), false
	case ReduceScatter:
		return n, p.ChunkCount(0, Output), false
	case AllToAll:
		return n, p.ChunkCount(0, Input) / n, false
	}
	for r := range p.GPUs {
		in, out := p.ChunkCount(r, Input), p.ChunkCount(r, Output)
		for _, c := range []int{in, out} {
			if c == 0 {
				continue
			}
			custom = custom || period != 0 && c != period
			period = cmp.Or(period, c)
		}
	}
	return 1, max(1, period), custom
}

// Period returns the number of chunks in a block of input or output: Layout.Period of every message.
func (p *Plan) Period() int {
	_, period, _ := p.Blocks()
	return period
}

// EvenUnit returns the unit in bytes: its multiples are the messages that divide into equal chunks (Even).
func (p *Plan) EvenUnit() uint64 {
	blocks, period, _ := p.Blocks()
	return uint64(blocks) * uint64(period) * uint64(p.Alignment)
}

// NewLayout returns the layout of the plan for a message of size bytes, as MinSize and MaxSize count them. The plan
// must be valid.
func (p *Plan) NewLayout(size uint64) (*Layout, error) {
	if size < p.MinSize || size > p.MaxSize {
		return nil, fmt.Errorf("plan %s: %w: %d bytes, the plan takes %d to %d", p.Name, ErrMessage, size, p.MinSize,
			p.MaxSize)
	}
	blocks, period, custom := p.Blocks()
	if size > uint64(Capacity.MaxOffset) {
		return nil, fmt.Errorf("plan %s: %w: %d bytes are more than can be addressed", p.Name, ErrMessage, size)
	}
	if size%uint64(blocks) != 0 {
		return nil, fmt.Errorf("plan %s: %w: %d bytes do not divide among %d ranks", p.Name, ErrMessage, size, blocks)
	}
	l := &Layout{Message: int64(size), Block: int64(size) / int64(blocks), Period: period, Alignment: p.Alignment, plan: p,
		custom: custom}
	units := ceilDiv(l.Block, p.Alignment)
	l.Chunk = ceilDiv(units, int64(period)) * p.Alignment
	if custom && l.Chunk*int64(period) != l.Block {
		return nil, fmt.Errorf("plan %s: %w: %d bytes do not divide into %d chunks of whole units of %d bytes", p.Name,
			ErrMessage, size, period, p.Alignment)
	}
	for r := range p.GPUs {
		most := max(p.ChunkCount(r, Input), p.ChunkCount(r, Output), 2*p.GPUs[r].ScratchChunks, 1)
		hi, lo := bits.Mul64(uint64(most), uint64(l.Chunk))
		if hi != 0 || lo > uint64(Capacity.MaxOffset)/4 {
			return nil, fmt.Errorf("plan %s: %w: %d chunks of %d bytes on rank %d are more than can be addressed", p.Name,
				ErrMessage, most, l.Chunk, r)
		}
	}
	return l, nil
}

// Memory returns the place in memory of a logical place: in an in-place plan, output and input are one memory.
func (p *Plan) Memory(pl Place) Place {
	pl.Plane, pl.Index = p.MemoryAt(pl.Rank, pl.Plane, pl.Index, p.Period())
	return pl
}

// MemoryAt is Memory of one chunk, for a caller that knows the period.
func (p *Plan) MemoryAt(rank int, pl Plane, chunk, period int) (Plane, int) {
	if !p.InPlace || pl > OutputPlane {
		return pl, chunk
	}
	if p.Collective == AllGather && pl == InputPlane || p.Collective == ReduceScatter && pl == OutputPlane {
		chunk += rank * period
	}
	return InputPlane, chunk
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// Together returns where a rank's input and output lie when they are one memory, as offsets of which one is 0.
func (l *Layout) Together(rank int) (input, output int64) {
	at := l.Offset(rank * l.Period)
	switch l.plan.Collective {
	case AllGather:
		return at, 0
	case ReduceScatter:
		return 0, at
	}
	return 0, 0
}

// Even reports whether no chunk is short.
func (l *Layout) Even() bool { return l.Chunk*int64(l.Period) == l.Block }

// Size returns the size in bytes of a rank's input or output.
func (l *Layout) Size(rank int, t BufferType) int64 {
	return l.Offset(l.plan.ChunkCount(rank, t))
}

// Offset returns the start of chunk k of an input or output. For k one past the last chunk, it returns the end of the
// buffer.
func (l *Layout) Offset(k int) int64 {
	if l.custom {
		return int64(k) * l.Chunk
	}
	block, i := int64(k/l.Period), int64(k%l.Period)
	return block*l.Block + min(i*l.Chunk, l.Block)
}

// Locate returns the offset of byte x of chunk k of an input or output, and how many bytes of the chunk exist from
// there on: 0 when the chunk is too short to have byte x. 0 <= x <= Chunk.
func (l *Layout) Locate(k int, x int64) (offset, avail int64) {
	if l.custom {
		return int64(k)*l.Chunk + x, l.Chunk - x
	}
	block, i := int64(k/l.Period), int64(k%l.Period)
	at := i*l.Chunk + x
	return block*l.Block + min(at, l.Block), max(0, min(l.Chunk-x, l.Block-at))
}

// Part returns the byte range that an op with slice s works on in an operand of size chunks, from the operand's start,
// as if no chunk were short. Slices are cut at units: the first (units mod Count) slices are one unit longer.
func (l *Layout) Part(size int, s Slice) (lo, hi int64) {
	total := int64(size) * l.Chunk
	if s.Count <= 1 {
		return 0, total
	}
	units := total / l.Alignment
	cut := func(t int64) int64 {
		return l.Alignment * (t*(units/int64(s.Count)) + min(t, units%int64(s.Count)))
	}
	return cut(int64(s.Index)), cut(int64(s.Index) + 1)
}

// Range is Part, or what iteration iter of a pipeline with UnitSize unit works on of it: nothing past the end. unit is
// 0 outside of pipelines.
func (l *Layout) Range(size int, s Slice, unit int64, iter int) (int64, int64) {
	lo, hi := l.Part(size, s)
	if unit == 0 {
		return lo, hi
	}
	if int64(iter) > (hi-lo)/unit {
		return hi, hi
	}
	from := lo + int64(iter)*unit
	if hi-from < unit {
		return from, hi
	}
	return from, from + unit
}

// Iterations returns how often the body of pipeline op runs.
func (l *Layout) Iterations(op *Op) int64 {
	n, rest := mulDiv(int64(op.NumChunks), l.Chunk, op.UnitSize)
	if rest {
		n++
	}
	return n
}

// UnitRange returns the smallest and the largest number of units in a chunk, over all accepted messages; lo is above hi
// if there is none. A message of 0 bytes moves no data.
func (p *Plan) UnitRange() (lo, hi int64) {
	blocks, period, custom := p.Blocks()
	in := func(size uint64) int64 {
		size = min(size, 1<<61)
		block := ceilDiv(int64(size), int64(blocks))
		return ceilDiv(ceilDiv(block, p.Alignment), int64(period))
	}
	lo, hi = max(1, in(p.MinSize)), max(1, in(p.MaxSize))
	if custom {
		hi = int64(min(p.MaxSize, 1<<61)) / (int64(period) * p.Alignment)
	}
	return lo, hi
}

// UnitsFor returns the sizes of a chunk, in units, for which op runs n times; with more, n times or more.
func (p *Plan) UnitsFor(op *Op, n int64, more bool) (lo, hi int64) {
	unit := op.UnitSize / p.Alignment
	before, _ := mulDiv(unit, n-1, int64(op.NumChunks))
	lo, hi = before+1, math.MaxInt64
	if !more {
		hi, _ = mulDiv(unit, n, int64(op.NumChunks))
	}
	return lo, hi
}

// OfChunk returns the layout of the message whose chunks have a size, whether the plan accepts it or not.
func (p *Plan) OfChunk(chunk int64) *Layout {
	blocks, period, custom := p.Blocks()
	l := &Layout{Block: int64(period) * chunk, Chunk: chunk, Period: period, Alignment: p.Alignment, plan: p,
		custom: custom}
	l.Message = l.Block * int64(blocks)
	return l
}

// mulDiv returns a·b/c, at most 1<<62, and whether there is a remainder. No argument may be negative.
func mulDiv(a, b, c int64) (q int64, rest bool) {
	const most = 1 << 62
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return most, false
	}
	n, r := bits.Div64(hi, lo, uint64(c))
	return int64(min(n, most)), r > 0 && n < most
}

// ScratchLayout places the parts of a rank's scratch buffer. Plain bytes and packets have separate planes, so that
// plain data is never mistaken for a packet. The start of each plane does not depend on the message size, so that the
// two halves stay disjoint for launches of different sizes.
type ScratchLayout struct {
	Size    int64    // total size in bytes
	Plain   [2]int64 // start of the plain plane, for even and odd launches; equal unless the plan doubles its scratch
	Packets [2]int64
}

// packetBytes is the number of packet bytes per byte of payload: half of a packet is flags. packetPayload is the
// largest payload that shares a flag.
const (
	packetBytes   = 2
	packetPayload = 8
)

const scratchAlign = 256

// UsesPackets reports whether an op of the plan accesses packets. UsesPlainScratch reports whether an op accesses plain
// bytes in scratch.
func (p *Plan) UsesPackets() bool      { return p.usesScratch(true) }
func (p *Plan) UsesPlainScratch() bool { return p.usesScratch(false) }

func (p *Plan) usesScratch(packets bool) bool {
	for r := range p.GPUs {
		g := &p.GPUs[r]
		groups := g.SwitchGroups()
		for tb, op := range g.Ops() {
			k := op.Name.Kind()
			if !k.Does.Has(Moves) {
				continue
			}
			for i := range op.Src {
				if k.SourcePackets(op.ChannelType, i) == packets && g.BufferOf(tb, groups, op, &op.Src[i]) == Scratch {
					return true
				}
			}
			for i := range op.Dst {
				if k.Dst.At(i).Packets() == packets && g.BufferOf(tb, groups, op, &op.Dst[i]) == Scratch {
					return true
				}
			}
		}
	}
	return false
}

// BufferOf returns the type of the buffer that a chunk of an op of thread block tb names. groups are g.SwitchGroups.
func (g *GPU) BufferOf(tb *ThreadBlock, groups []SwitchGroup, op *Op, c *Chunk) BufferType {
	switch c.Kind {
	case RemoteChunk:
		return g.RemoteBuffers[tb.RemoteBufferIDs(op.ChannelType)[c.ID]].Type
	case SwitchChunk:
		return groups[tb.ChannelIDs(SwitchChannel)[c.ID]].Buffer
	}
	return c.Type
}

// Scratch returns the layout of rank's scratch for messages whose chunks are at most chunk bytes. All ranks must use
// the same chunk, the largest that they ever need: to grow scratch, all ranks exchange a new buffer.
func (p *Plan) Scratch(rank int, chunk int64) ScratchLayout {
	n := int64(p.GPUs[rank].ScratchChunks) * chunk
	var plain, packets int64
	if p.UsesPlainScratch() {
		plain = ceilDiv(n, scratchAlign) * scratchAlign
	}
	if p.UsesPackets() {
		packets = ceilDiv(n*packetBytes, scratchAlign) * scratchAlign
	}
	s := ScratchLayout{Size: plain + packets, Packets: [2]int64{plain, plain}}
	if p.DoubleScratch {
		s.Plain[1] = s.Size
		s.Packets[1] = s.Size + plain
		s.Size *= 2
	}
	return s
}
