package executor

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
)

const (
	// mapTimeout bounds the mapping of a peer's buffer.
	mapTimeout = 10 * time.Second
	// quantum is how many bytes a thread block moves before the worker turns to its other blocks, so that a large copy
	// does not delay the peers that wait for those blocks.
	quantum = 512 << 10
	// tile is how many bytes are reduced before they are copied to further destinations. It fits in the cache.
	tile = 32 << 10
)

// pointerBytes is an address of mapped memory, or of memory that the caller keeps alive and does not move.
type pointerBytes uintptr

func (p pointerBytes) at(off int64) unsafe.Pointer {
	a := uintptr(p) + uintptr(off)
	return *(*unsafe.Pointer)(unsafe.Pointer(&a))
}

// data moves the rest of the op, at most quantum bytes. It reports whether the op is complete.
func (b *block) data(in *instr, w *worker) (bool, error) {
	left := int64(quantum)
	for b.move < len(in.moves) {
		m := &in.moves[b.move]
		lo, hi := b.r.layout.Range(m.Src[0].Size, m.slice, b.unit, b.iter)
		if b.at < lo {
			b.at = lo
		}
		for b.at < hi {
			if left <= 0 {
				return false, nil
			}
			n := min(hi-b.at, left)
			if len(m.Dst) > 1 && !in.remote {
				n = min(n, tile)
			}
			n, err := b.piece(in, m, w, b.at, n)
			if err != nil {
				return false, err
			}
			b.at += n
			left -= n
		}
		b.move++
		b.at = 0
	}
	return true, nil
}

// piece moves up to n bytes from offset at of the operands, and returns how many bytes it has handled: up to the end of
// a block of input or output when chunks may be short. It does not move bytes beyond the end of an operand, but it
// announces their packets all the same.
func (b *block) piece(in *instr, m *move, w *worker, at, n int64) (int64, error) {
	r := b.r
	real := n
	if !r.layout.Even() {
		n, real = r.layout.short(m, at, n)
	}
	if m.Bound != nil {
		real = min(real, r.exist(m.Bound, at))
	}
	if real > 0 {
		w.srcs = w.srcs[:0]
		for i := range m.Src {
			s, err := r.bytes(in, &m.Src[i], at, real)
			if err != nil {
				return 0, err
			}
			w.srcs = append(w.srcs, s)
		}
		if err := r.fold(in, m, w, at, real); err != nil {
			return 0, err
		}
	}
	for i := range m.Dst {
		if m.Dst[i].Plane == plan.PacketPlane && r.h.x.e.otherHost(m.Dst[i].Rank) {
			r.h.remote.announce(r, &m.Dst[i], at, n)
		} else if m.Dst[i].Plane == plan.PacketPlane {
			r.flags(&m.Dst[i]).set(r.packetOffset(&m.Dst[i], at), n, r.epoch)
		}
	}
	return n, nil
}

// exist returns how many bytes of a block there are from offset at of an operand on, by the caller's counts.
func (r *run) exist(b *plan.Bound, at int64) int64 {
	if r.Counts == 0 {
		return math.MaxInt64
	}
	n := *(*uint64)(pointerBytes(r.Counts).at(8 * int64(b.Src*r.h.x.e.size+b.Dst)))
	return int64(min(n, math.MaxInt64)) - int64(b.Index)*r.layout.Chunk - at
}

// short returns how many of n bytes from offset at can be moved at once, and how many of these exist in all operands.
// The chunks of a block of input or output are contiguous, and only the block's end may be missing.
func (l *layout) short(m *move, at, n int64) (moved, real int64) {
	if !l.blocks {
		n = min(n, l.Chunk-at%l.Chunk)
	}
	real = n
	for _, side := range [2][]plan.Place{m.Src, m.Dst} {
		for i := range side {
			switch pl := &side[i]; {
			case pl.Plane > plan.OutputPlane:
			case l.blocks:
				pos := (int64(pl.Index)*l.Chunk + at) % (int64(l.Period) * l.Chunk)
				n = min(n, int64(l.Period)*l.Chunk-pos)
				real = min(real, max(0, l.Block-pos))
			default:
				_, avail := l.Locate(pl.Index+int(at/l.Chunk), at%l.Chunk)
				real = min(real, avail)
			}
		}
	}
	return n, min(n, real)
}

// fold reduces or copies w.srcs to all destinations of a move. A sum goes to the first destination and, while it is in
// the cache, from there to the others. (Non-temporal stores were tried for messages larger than the cache: 12 GB/s
// against 15 with plain ones, two cores of a Sapphire Rapids.)
func (r *run) fold(in *instr, m *move, w *worker, at, n int64) error {
	from, next := w.srcs[0], 0
	if len(m.Src) > 1 {
		var err error
		if from, err = r.bytes(in, &m.Dst[0], at, n); err != nil {
			return err
		}
		next = 1
		if err := hostreduce.Reduce(from, w.srcs, r.Type, in.op.ReduceOp.Or(r.op), [8]byte{}, 0); err != nil {
			return fmt.Errorf("%v (%s): %w", in.pos, in.op.Name, err)
		}
	}
	for i := next; i < len(m.Dst); i++ {
		if r.h.x.e.otherHost(m.Dst[i].Rank) {
			if err := r.h.remote.put(r, in, &m.Dst[i], at, from); err != nil {
				return err
			}
			continue
		}
		d, err := r.bytes(in, &m.Dst[i], at, n)
		if err != nil {
			return err
		}
		copy(d, from)
	}
	return nil
}

// bytes returns n bytes at offset at of an operand. It rejects a range outside of the buffer.
func (r *run) bytes(in *instr, pl *plan.Place, at, n int64) ([]byte, error) {
	var s span
	off := r.offset(pl, at)
	switch {
	case pl.Plane <= plan.OutputPlane:
		s = r.bases[pl.Rank].buffer[pl.Plane]
	default:
		s.size = r.scratch.plain[pl.Rank]
		s.base = pointerBytes(r.scratch.arena.Ptr[pl.Rank])
		sl := &r.scratch.layouts[pl.Rank]
		if pl.Plane == plan.ScratchPlane {
			s.base += pointerBytes(sl.Plain[r.number&1])
		} else {
			s.base += pointerBytes(sl.Packets[r.number&1])
		}
	}
	if off < 0 || off > s.size-n {
		return nil, r.outside(in, pl, off, n, s.size)
	}
	return unsafe.Slice((*byte)(s.base.at(off)), n), nil
}

// offset returns where offset at of an operand is in its plane.
func (r *run) offset(pl *plan.Place, at int64) (off int64) {
	if l := r.layout; pl.Plane <= plan.OutputPlane && !l.Even() {
		off, _ = l.Locate(pl.Index+int(at/l.Chunk), at%l.Chunk)
		return off
	}
	return int64(pl.Index)*r.layout.Chunk + at
}

func (r *run) outside(in *instr, pl *plan.Place, off, n, size int64) error {
	return r.h.x.fail(r.Seq, pl.Rank, invalid("%v (%s): bytes %d to %d of the %v of rank %d, which has %d", in.pos,
		in.op.Name, off, off+n-1, pl.Plane, pl.Rank, size))
}

func (r *run) packetOffset(pl *plan.Place, at int64) int64 {
	return int64(pl.Index)*r.layout.Chunk + at
}

// packetFlags records which packets of a plane have arrived. A plane of n bytes of payload is followed by a 64-bit word
// for every 256 bytes: the upper half is the epoch, the lower half has a bit for each packet of 8 bytes that arrived in
// this epoch. So a copy of 256 bytes costs one atomic store, and several writers can share a word.
type packetFlags struct{ base pointerBytes }

const (
	packetBytes = 8
	lineBytes   = 32 * packetBytes
)

func (r *run) flags(pl *plan.Place) packetFlags {
	sl := &r.scratch.layouts[pl.Rank]
	return packetFlags{pointerBytes(r.scratch.arena.Ptr[pl.Rank]) +
		pointerBytes(sl.Packets[r.number&1]+r.scratch.plain[pl.Rank])}
}

func (f packetFlags) word(line int64) *atomic.Uint64 { return (*atomic.Uint64)(f.base.at(8 * line)) }

// lineBits returns the bits of packets [off, off+n) within off's line, and how many bytes these are.
func lineBits(off, n int64) (uint64, int64) {
	in := off % lineBytes
	n = min(n, lineBytes-in)
	count := (n + packetBytes - 1) / packetBytes
	return (uint64(math.MaxUint32) >> (32 - count)) << (in / packetBytes), n
}

// set announces the packets of n bytes at off. Their payload must be written before.
func (f packetFlags) set(off, n int64, epoch uint32) {
	for n > 0 {
		mask, k := lineBits(off, n)
		w := f.word(off / lineBytes)
		fresh := uint64(epoch)<<32 | mask
		if mask == math.MaxUint32 {
			w.Store(fresh)
		} else {
			for {
				old := w.Load()
				v := fresh
				if uint32(old>>32) == epoch {
					v |= old
				}
				if w.CompareAndSwap(old, v) {
					break
				}
			}
		}
		off += k
		n -= k
	}
}

// here reports whether all packets of n bytes at off have arrived.
func (f packetFlags) here(off, n int64, epoch uint32) bool {
	for n > 0 {
		mask, k := lineBits(off, n)
		if v := f.word(off / lineBytes).Load(); uint32(v>>32) != epoch || v&mask != mask {
			return false
		}
		off += k
		n -= k
	}
	return true
}

// arrived reports whether all packets that the op reads now have arrived. It keeps its position between calls, so that
// a long wait does not start over.
func (b *block) arrived(in *instr) bool {
	r := b.r
	for ; b.seenMove < len(in.moves); b.seenMove++ {
		m := &in.moves[b.seenMove]
		lo, hi := b.r.layout.Range(m.Src[0].Size, m.slice, b.unit, b.iter)
		for ; b.seenSrc < len(m.Src); b.seenSrc++ {
			pl := &m.Src[b.seenSrc]
			if pl.Plane == plan.PacketPlane && hi > lo && !r.flags(pl).here(r.packetOffset(pl, lo), hi-lo, r.epoch) {
				return false
			}
		}
		b.seenSrc = 0
	}
	return true
}
