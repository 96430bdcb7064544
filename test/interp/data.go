package interp

import (
	"bytes"
	"encoding/binary"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/plan"
)

// piece is one unit of one move: byte offset x of chunk j of every operand.
type piece struct {
	move *plan.Move
	j    int
	x    int64
}

// pieces returns the units of a move in one iteration of an op.
func (b *block) pieces(in *instruction, m *plan.Move) []piece {
	l := b.m.layouts[b.r.launch]
	lo, hi := l.Range(m.Src[0].Size, in.step.Op.Slice, in.unit, in.iter)
	var out []piece
	for at := lo; at < hi; at += l.Alignment {
		out = append(out, piece{m, int(at / l.Chunk), at % l.Chunk})
	}
	return out
}

// data moves one of this thread's remaining units that is ready.
func (l *thread) data(in *instruction) (done, on bool) {
	b, s := l.b, in.step
	if !l.active {
		l.active, l.work = true, l.work[:0]
		n := 0
		for i := range s.Moves {
			for _, p := range b.pieces(in, &s.Moves[i]) {
				if n%b.m.cfg.Threads == l.index {
					l.work = append(l.work, p)
				}
				n++
			}
		}
	}
	for i, p := range l.work {
		if i > 0 && b.m.trace != nil {
			break // the effect of a step must not depend on which packets are ready
		}
		if b.m.ready(p, b.r.launch) {
			if s.Hook > 0 {
				b.m.caller(p, b.r.launch)
			} else {
				b.m.move(p, b.r.launch, s.Op.ReduceOp.Or(b.m.cfg.Op))
			}
			l.work = append(l.work[:i], l.work[i+1:]...)
			return len(l.work) == 0, true
		}
	}
	return len(l.work) == 0, false
}

// ready reports whether the packets that a piece reads were sent in this launch.
func (m *machine) ready(p piece, launch int) bool {
	l := m.layouts[launch]
	for _, src := range p.move.Src {
		if src.Plane != plan.PacketPlane {
			continue
		}
		r := m.ranks[src.Rank]
		at := packetAt(r.places, l, uint64(launch), src.Index+p.j, p.x)
		for x := int64(0); x < l.Alignment; x += payload {
			if binary.LittleEndian.Uint32(r.scratch[at+2*x+payload:]) != flag(launch) {
				return false
			}
		}
	}
	return true
}

// await records in the trace that the packets of a piece have been awaited.
func (m *machine) await(p piece, launch int) {
	if m.trace == nil {
		return
	}
	l := m.layouts[launch]
	for _, src := range p.move.Src {
		if src.Plane == plan.PacketPlane {
			at := packetAt(m.ranks[src.Rank].places, l, uint64(launch), src.Index+p.j, p.x)
			for x := int64(0); x < 2*l.Alignment; x += payload {
				m.trace.read(object{kind: scratchOf, a: src.Rank, at: at + x}, true)
			}
		}
	}
}

// payload is the data of one packet in this package: 4 bytes, followed by 4 bytes of flag.
const payload = 4

func flag(launch int) uint32 { return uint32(launch) + 1 }

// move reads all sources, reduces them in order and writes all destinations, for one unit. It does not move bytes
// beyond the end of a short input or output chunk; in packets it sends them as zeros, because the reader waits for the
// whole chunk.
func (m *machine) move(p piece, launch int, op datatype.Op) {
	bytes, n := m.gather(p, launch, op)
	m.scatter(p, launch, bytes, n)
}

// gather is the first half of move: the bytes, and how many of them exist at both ends.
func (m *machine) gather(p piece, launch int, op datatype.Op) (acc []byte, n int64) {
	l := m.layouts[launch]
	n = l.Alignment
	for _, side := range [][]plan.Place{p.move.Src, p.move.Dst} {
		for i := range side {
			if side[i].Plane <= plan.OutputPlane {
				_, avail := l.Locate(side[i].Index+p.j, p.x)
				n = min(n, avail)
			}
		}
	}
	if b := p.move.Bound; b != nil && m.cfg.Counts != nil {
		n = max(0, min(n, m.cfg.Counts[b.Src][b.Dst]-int64(b.Index+p.j)*l.Chunk-p.x))
	}
	m.await(p, launch)
	acc = make([]byte, l.Alignment)
	srcs := make([][]byte, len(p.move.Src))
	for i := range p.move.Src {
		src := make([]byte, l.Alignment)
		m.load(src, &p.move.Src[i], p, launch, n)
		srcs[i] = src[:n]
	}
	m.reduce(acc[:n], srcs, op)
	return acc, n
}

// scatter is the second half.
func (m *machine) scatter(p piece, launch int, acc []byte, n int64) {
	for i := range p.move.Dst {
		m.store(&p.move.Dst[i], acc, p, launch, n)
	}
}

// bytes returns the bytes of the piece in a plain place, to be read or written.
func (m *machine) bytes(pl *plan.Place, p piece, launch int, n int64, write bool) []byte {
	l, r := m.layouts[launch], m.ranks[pl.Rank]
	k := pl.Index + p.j
	switch pl.Plane {
	case plan.InputPlane:
		at, _ := l.Locate(k, p.x)
		m.user(r.rank, r.inputAt+at, n, write)
		return r.remote(r.input, at, n)
	case plan.OutputPlane:
		at, _ := l.Locate(k, p.x)
		m.user(r.rank, r.outputAt+at, n, write)
		return r.remote(r.output, at, n)
	}
	at := r.places.Plain[launch&1] + int64(k)*l.Chunk + p.x
	if m.trace != nil {
		for x := int64(0); x < n; x += payload {
			m.trace.access(object{kind: scratchOf, a: r.rank, at: at + x}, write, false)
		}
	}
	return r.scratch[at : at+n]
}

// user records in the trace an access to n bytes of the caller's buffers of a rank, granule by granule.
func (m *machine) user(rank int, at, n int64, write bool) {
	if m.trace == nil || n == 0 {
		return
	}
	for g := at / m.granule; g <= (at+n-1)/m.granule; g++ {
		m.trace.access(object{kind: userOf, a: rank, at: g}, write, false)
	}
}

// remote returns a range of a buffer of r. A rank that is a launch behind or ahead may have a smaller buffer; then the
// access has no effect. This happens only with a plan that lacks handshakes.
func (r *rankState) remote(buf []byte, at, n int64) []byte {
	if at+n > int64(len(buf)) {
		return make([]byte, n)
	}
	return buf[at : at+n]
}

func (m *machine) load(dst []byte, pl *plan.Place, p piece, launch int, n int64) {
	clear(dst)
	if pl.Plane != plan.PacketPlane {
		copy(dst, m.bytes(pl, p, launch, n, false))
		return
	}
	r := m.ranks[pl.Rank]
	at := packetAt(r.places, m.layouts[launch], uint64(launch), pl.Index+p.j, p.x)
	for x := int64(0); x < int64(len(dst)); x += payload {
		copy(dst[x:x+payload], r.scratch[at+2*x:])
	}
}

func (m *machine) store(pl *plan.Place, src []byte, p piece, launch int, n int64) {
	if pl.Plane != plan.PacketPlane {
		copy(m.bytes(pl, p, launch, n, true), src[:n])
		return
	}
	r := m.ranks[pl.Rank]
	at := packetAt(r.places, m.layouts[launch], uint64(launch), pl.Index+p.j, p.x)
	packets := make([]byte, 0, 2*len(src))
	for x := 0; x < len(src); x += payload {
		packets = append(packets, src[x:x+payload]...)
		packets = binary.LittleEndian.AppendUint32(packets, flag(launch))
	}
	// Storing the bytes that are there already changes nothing for a reader, so it conflicts only with what writes other
	// bytes later. The order of two equal packets matters as the order of signals does: both orders are run.
	write := !bytes.Equal(r.scratch[at:at+int64(len(packets))], packets)
	if m.trace != nil {
		m.trace.touch(object{kind: packetsOf, a: r.rank, at: at})
		for x := int64(0); x < int64(len(packets)); x += payload {
			if o := (object{kind: scratchOf, a: r.rank, at: at + x}); write {
				m.trace.write(o)
			} else {
				m.trace.repeat(o)
			}
		}
	}
	copy(r.scratch[at:], packets)
}

// reduce reduces srcs into dst in order: 16- and 8-bit floats in float32, rounded once for each op of a plan.
func (m *machine) reduce(dst []byte, srcs [][]byte, op datatype.Op) {
	if err := hostreduce.Reduce(dst, srcs, m.cfg.Type, op, [8]byte{}, len(srcs)); err != nil {
		panic(err) // Run has checked the type and the operator, and pieces are whole elements
	}
}

// packetAt returns the offset of the packet of byte x of a scratch chunk. The packets of a chunk are dense, half of
// each is flags, and x is a multiple of the payload.
func packetAt(s plan.ScratchLayout, l *plan.Layout, launch uint64, chunk int, x int64) int64 {
	return s.Packets[launch&1] + 2*(int64(chunk)*l.Chunk+x)
}
