package executor

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/plan"
)

// gpuProgram is a rank's program as the kernel reads it: stride bytes for each block.
type gpuProgram struct {
	bytes  []byte
	stride int
	blocks int
	where  [][]*instr // by block: the plan's op behind each of the kernel's ops
	chunks int        // of the largest operand
	copies int        // of the largest plain copy from one place to one place
	quick  bool       // only nops and static ops, so the quick kernel can run it
}

// encode translates prog. period is the number of chunks in a block of the message.
func encode(prog *program, period int) (*gpuProgram, error) {
	g := &gpuProgram{blocks: len(prog.blocks), quick: true}
	var all [][]byte
	for b := range prog.blocks {
		e := gpuEncoder{prog: prog, period: uint32(max(1, period)), g: g}
		if err := e.block(prog.blocks[b]); err != nil {
			return nil, err
		}
		data := e.bytes()
		all = append(all, data)
		g.where = append(g.where, e.where)
		g.stride = max(g.stride, len(data))
	}
	g.stride = max(16, g.stride)
	g.quick = g.quick && g.stride <= gpuShared
	for _, data := range all {
		g.bytes = append(append(g.bytes, data...), make([]byte, g.stride-len(data))...)
	}
	return g, nil
}

type gpuEncoder struct {
	prog   *program
	period uint32
	g      *gpuProgram
	ops    []gpuOp
	items  []gpuItem
	where  []*instr
}

func (e *gpuEncoder) block(list []instr) error {
	at := make([]int, len(list)+1) // index of the first kernel op of each op of the plan
	entry := true
	for i := range list {
		at[i] = len(e.ops)
		in := &list[i]
		if err := e.instr(in, entry); err != nil {
			return err
		}
		entry = entry && in.opens
	}
	at[len(list)] = len(e.ops)
	for i := range e.ops {
		if c := e.where[i].code; c == plan.CodeLoop || c == plan.CodeEndLoop {
			e.ops[i].to = uint32(at[e.ops[i].to])
		}
	}
	return nil
}

func (e *gpuEncoder) add(in *instr, o gpuOp) {
	if in.inner {
		o.flags |= gpuInner
	}
	e.g.quick = e.g.quick && (o.code == uint8(plan.CodeNop) || o.flags&gpuStatic != 0 &&
		(o.reduction == gpuCallersOp || o.reduction == uint8(datatype.Sum)))
	e.ops = append(e.ops, o)
	e.where = append(e.where, in)
}

func (e *gpuEncoder) entries(n int, item func(i int) gpuItem) gpuOp {
	o := gpuOp{first: uint32(len(e.items)), count: uint32(n)}
	for i := range n {
		e.items = append(e.items, item(i))
	}
	return o
}

func (e *gpuEncoder) links(links []int) gpuOp {
	return e.entries(len(links), func(i int) gpuItem { return e.link(links[i]) })
}

func (e *gpuEncoder) link(l int) gpuItem {
	return gpuItem{rank: uint8(e.prog.peer[l]), index: uint32(l), block: uint32(max(0, e.prog.pair[l]))}
}

func (e *gpuEncoder) instr(in *instr, entry bool) error {
	port := in.op.ChannelType == plan.PortChannel
	var o gpuOp
	switch in.code {
	case plan.CodeBarrier:
		o = e.entries(1, func(int) gpuItem { return gpuItem{index: uint32(in.op.BarrierID)} })
		o.count = uint32(in.op.NumThreadBlocks)
	case plan.CodeSignal:
		flags := uint8(0)
		if in.opens && entry {
			flags |= gpuRelaxed
		}
		if port {
			flags |= gpuMeet
		}
		e.signals(in, flags, false)
		return nil
	case plan.CodeWait:
		o = e.links(in.links)
	case plan.CodeAcquire, plan.CodeRelease:
		o = e.entries(len(in.op.SemaphoreIDs), func(i int) gpuItem { return gpuItem{index: uint32(in.op.SemaphoreIDs[i])} })
	case plan.CodeLoop:
		o.chunks, o.unit, o.to = uint32(in.op.NumChunks), uint64(in.op.UnitSize), uint32(in.to)
	case plan.CodeEndLoop:
		o.to = uint32(in.to)
	case plan.CodeData:
		return e.data(in, port)
	}
	o.code = uint8(in.kernel)
	if port && in.code != plan.CodeWait { // all threads of the block do the transfers, before this op
		o.flags |= gpuMeet
	}
	e.add(in, o)
	return nil
}

// gpuOperands is the maximum number of sources, and of destinations, of a kernel op.
const gpuOperands = 8

// data encodes an op for every move. Copies of one source become one op; a move with too many operands becomes several.
func (e *gpuEncoder) data(in *instr, port bool) error {
	meet := uint8(0)
	if port {
		meet = gpuMeet
	}
	for i := 0; i < len(in.moves); {
		m := &in.moves[i]
		if port && e.prog.isRemote(m.Dst[0].Rank) {
			e.push(in, m, meet)
			meet = 0
			i++
			continue
		}
		dst := slices.Clone(m.Dst)
		k := i + 1
		for ; k < len(in.moves) && len(m.Src) == 1 && len(in.moves[k].Src) == 1 && in.moves[k].Src[0] == m.Src[0] &&
			!e.prog.isRemote(in.moves[k].Dst[0].Rank); k++ {
			dst = append(dst, in.moves[k].Dst...)
		}
		if err := e.split(in, m.Src, dst, meet); err != nil {
			return err
		}
		meet = 0
		i = k
	}
	if in.signal {
		e.signals(in, gpuMeet, len(in.moves) > 0)
	}
	return nil
}

// split encodes one move as several ops. A long reduction accumulates in its first destination, part by part: every
// thread reads back only bytes that it wrote itself. A later part must not read any of these bytes as a source. A copy,
// or a completed reduction, writes the destinations part by part; threads meet before, as copies are divided otherwise.
func (e *gpuEncoder) split(in *instr, src, dst []plan.Place, flags uint8) error {
	if len(src) > gpuOperands {
		acc := e.prog.plan.Memory(dst[0])
		overwritten := slices.ContainsFunc(src[gpuOperands:], func(pl plan.Place) bool {
			later := e.prog.plan.Memory(pl)
			return overlap(&acc, &later)
		})
		if acc.Plane == plan.PacketPlane || overwritten {
			return fmt.Errorf("%w: %v (%s): a reduction of %d sources into one of those behind the first %d, or into "+
				"packets; GPUs add up %d at a time: name that source first, or reduce in several ops",
				collective.ErrUnsupported, in.pos, in.op.Name, len(src), gpuOperands, gpuOperands)
		}
	}
	for len(src) > gpuOperands {
		acc := dst[0]
		if err := e.move(in, src[:gpuOperands], dst[:1], flags); err != nil {
			return err
		}
		src = append([]plan.Place{acc}, src[gpuOperands:]...)
		flags = 0
	}
	for len(dst) > gpuOperands && len(src) > 1 {
		if dst[0].Plane == plan.PacketPlane {
			return fmt.Errorf("%w: %v (%s): a reduction to %d destinations; GPUs take %d", collective.ErrUnsupported, in.pos,
				in.op.Name, len(dst), gpuOperands)
		}
		if err := e.move(in, src, dst[:1], flags); err != nil {
			return err
		}
		src, dst, flags = dst[:1], dst[1:], gpuMeet
	}
	for len(dst) > 0 {
		n := min(len(dst), gpuOperands)
		if err := e.move(in, src, dst[:n], flags); err != nil {
			return err
		}
		dst, flags = dst[n:], 0
	}
	return nil
}

func overlap(a, b *plan.Place) bool {
	return a.Rank == b.Rank && a.Plane == b.Plane && a.Index < b.Index+b.Size && b.Index < a.Index+a.Size
}

func (e *gpuEncoder) move(in *instr, src, dst []plan.Place, flags uint8) error {
	o := gpuOp{code: uint8(in.kernel), flags: flags, sources: uint16(len(src)), destinations: uint16(len(dst)),
		first: uint32(len(e.items)),
		count: uint32(src[0].Size), reduction: gpuCallersOp}
	if in.fixed {
		o.reduction = uint8(in.op.ReduceOp.Or(datatype.Sum))
	}
	if in.raw {
		o.flags |= gpuRaw
	}
	e.limit(&o, in.op)
	e.g.chunks = max(e.g.chunks, src[0].Size)
	first, own := len(e.items), true
	for k, side := range [2][]plan.Place{src, dst} {
		for i, pl := range side {
			if pl.Rank >= gpuRanks {
				return fmt.Errorf("%w: rank %d; plans on GPUs have up to %d ranks", collective.ErrUnsupported, pl.Rank, gpuRanks)
			}
			if pl.Plane == plan.PacketPlane {
				o.flags |= gpuPackets
				o.chunks |= 1 << (16*k + i)
			}
			if pl.Plane <= plan.OutputPlane && pl.Rank != e.prog.rank {
				o.io |= 1 << pl.Rank
			}
			own = own && (pl.Plane == plan.PacketPlane || pl.Rank == e.prog.rank)
			e.operand(pl)
		}
	}
	if in.kernel == plan.CodeData && o.flags&(gpuRaw|gpuCounted) == 0 && !in.inner && own && o.count <= math.MaxUint16 {
		o.flags |= gpuStatic
		for i := range e.items[first:] {
			e.items[first+i].chunks = uint16(o.count)
		}
	}
	if o.flags&gpuPackets == 0 && len(src) == 1 && len(dst) == 1 {
		e.g.copies = max(e.g.copies, src[0].Size)
	}
	e.add(in, o)
	return nil
}

func (e *gpuEncoder) operand(pl plan.Place) {
	at := uint32(pl.Index)
	e.items = append(e.items, gpuItem{rank: uint8(pl.Rank), plane: uint8(pl.Plane), index: at, block: at / e.period,
		within: at % e.period})
}

// limit encodes which bytes of its operands an op moves: the bytes of its slice, up to the count of its pair of ranks.
func (e *gpuEncoder) limit(o *gpuOp, op *plan.Op) {
	if s := op.Slice; s.Count > 1 {
		o.slice, o.slices = uint16(s.Index), uint16(s.Count)
	}
	if b := op.Bound; b != nil {
		o.flags |= gpuCounted
		o.pair, o.unit = uint8(b.Src*len(e.prog.plan.GPUs)+b.Dst), uint64(b.Index)
	}
}

func (e *gpuEncoder) bytes() []byte {
	h := gpuHeader{ops: uint32(len(e.ops)), items: uint32(16 + 48*len(e.ops)), count: uint32(len(e.items))}
	out := append([]byte(nil), launcher.Raw(&h)...)
	for i := range e.ops {
		out = append(out, launcher.Raw(&e.ops[i])...)
	}
	for i := range e.items {
		out = append(out, launcher.Raw(&e.items[i])...)
	}
	return out
}

// gpuState is the state in GPU memory that persists between launches, as offsets in one allocation.
type gpuState struct{ barriers, semaphores, expected, peers, regions, far, program, size int64 }

func newGPUState(prog *program, semaphores int, g *gpuProgram) (s gpuState) {
	at := int64(0)
	take := func(n int64) int64 {
		p := at
		at += (n + 63) &^ 63
		return p
	}
	s.barriers = take(16 * int64(prog.barriers))
	s.semaphores = take(8 * int64(semaphores))
	s.expected = take(8 * int64(prog.links))
	s.peers = take(int64(g.blocks) * gpuRanks * 16)
	s.regions = take(gpuRanks * gpuRegions * 8)
	s.far = take(int64(unsafe.Sizeof(gpuFar{})))
	s.program = take(int64(len(g.bytes)))
	s.size = at
	return s
}

// push encodes a put to a rank of another host, with its signal.
func (e *gpuEncoder) push(in *instr, m *move, flags uint8) {
	src, dst := m.Src[0], m.Dst[0]
	o := gpuOp{code: gpuPush, flags: flags, sources: 1, destinations: 1, first: uint32(len(e.items)),
		count: uint32(src.Size)}
	if in.raw {
		o.flags |= gpuRaw
	}
	e.limit(&o, in.op)
	e.g.chunks = max(e.g.chunks, src.Size)
	for _, pl := range []plan.Place{src, dst} {
		e.operand(pl)
	}
	link := e.link(in.links[m.Entry])
	if in.signal {
		link.within = 1
	}
	e.items = append(e.items, link)
	e.add(in, o)
}

// signals encodes the signals of an op. Signals to other hosts are a separate op, or go with the puts to these hosts.
func (e *gpuEncoder) signals(in *instr, flags uint8, pushed bool) {
	remote := func(l int) bool { return e.prog.isRemote(e.prog.peer[l]) }
	local := slices.DeleteFunc(slices.Clone(in.links), remote)
	if len(local) > 0 {
		o := e.links(local)
		o.code, o.flags = uint8(plan.CodeSignal), flags
		e.add(in, o)
	}
	if len(local) == len(in.links) || pushed {
		return
	}
	first := len(e.items)
	o := e.links(slices.DeleteFunc(slices.Clone(in.links), func(l int) bool { return !remote(l) }))
	for i := range e.items[first:] {
		e.items[first+i].within = 1
	}
	o.code, o.flags = gpuPushSignal, gpuMeet
	e.add(in, o)
}
