package nvlink

import (
	"encoding/binary"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/plain"
)

// collectives holds what enqueues one request that is not a send or a receive.
var collectives = [collective.NumCollectives]func(*Engine, *collective.Request, *cuda.Stream) error{
	collective.AllReduce:       (*Engine).reduce,
	collective.AllGather:       (*Engine).exchange,
	collective.ReduceScatter:   (*Engine).reduceScatter,
	collective.AllToAll:        (*Engine).exchange,
	collective.AllToAllV:       (*Engine).allToAllV,
	collective.Broadcast:       (*Engine).broadcast,
	collective.Reduce:          (*Engine).reduce,
	collective.Gather:          (*Engine).gather,
	collective.Scatter:         (*Engine).gather,
	collective.Barrier:         (*Engine).barrierOf,
	collective.AllToAllVDevice: (*Engine).allToAllVDevice,
}

// countless reports whether a collective has work although Count is 0.
func countless(c collective.Collective) bool {
	return c == collective.Barrier || c == collective.AllToAllV || c == collective.AllToAllVDevice
}

// pick chooses the variant, and the ring only if it can run the request. It asks the driver whether s is captured only
// if the table has separate rows for captured work.
func (e *Engine) pick(r *collective.Request, bytes int64, s *cuda.Stream) (variant, error) {
	if r.Algorithm != "" {
		v, err := e.named(r)
		return e.usable(v, r), err
	}
	captured := 0
	if e.table.modes[r.Collective] {
		status, _, err := s.CaptureStatus()
		if err != nil {
			return variant{}, err
		}
		captured = plain.Bit[int](status != cuda.CaptureNone)
	}
	return e.usable(e.table.pick(r.Collective, r.Type, bytes, captured), r), nil
}

// usable returns v, or what runs instead if v cannot run r. It is the same on all ranks.
func (e *Engine) usable(v variant, r *collective.Request) variant {
	if v.protocol == lamport && !e.canPush(v, r) {
		v.protocol, v.twoShot = ll128, v.twoShot || r.Bytes() > lamportInstead
		if e.table.noLL128 {
			v.protocol = ll
		}
	}
	if v.protocol == direct && (e.directKernel(r) == nil || !e.chosen(r) && !e.directByDefault(r)) {
		v = variant{protocol: ring, threads: directInstead}
	}
	if v.protocol == ring && !e.canUseRing(r) {
		v = e.table.packets(r.Collective)
		if e.inRankOrder(r.Exact) && e.directSums(r) != nil {
			v = variant{protocol: direct, threads: directOrdered}
		}
	}
	return v
}

// canPush reports whether a Lamport kernel takes r: it needs a word that no packet holds, and slots for all packets.
func (e *Engine) canPush(v variant, r *collective.Request) bool {
	return r.Op == datatype.Sum && special(r.Type, r.Op, e.size) && r.Bytes() <= lamportMost(v.twoShot, e.size)
}

// reduce runs all-reduce and reduce.
func (e *Engine) reduce(r *collective.Request, s *cuda.Stream) error {
	root := uint32(everyone)
	if r.Collective == collective.Reduce {
		root = uint32(r.Root)
	}
	v, err := e.pick(r, r.Bytes(), s)
	if err != nil {
		return err
	}
	if v.protocol == direct {
		return e.direct(r, s, v)
	}
	if v.protocol == ring {
		return e.ringReduce(r, s, root, v)
	}
	a := e.args
	a.operands(r)
	a.bytes, a.root = uint64(r.Bytes()), root
	a.sendStride, a.recvStride = 0, 0
	if !v.twoShot || e.size == 1 {
		return e.launchReduction(r, s, oneShot, v, r.Bytes())
	}
	what, owners := twoShot, int64(e.size)
	if root != everyone {
		what, owners, v.protocol = rooted, owners-1, ll128
	}
	slice := sliceOf(r.Bytes(), owners)
	a.sendStride = uint64(slice)
	return e.launchReduction(r, s, what, v, slice)
}

// sliceOf divides bytes among owners in multiples of 16, so that only the last slice may end in part of a vector.
func sliceOf(bytes, owners int64) int64 { return ((bytes+owners-1)/owners + 15) &^ 15 }

func (e *Engine) reduceScatter(r *collective.Request, s *cuda.Stream) error {
	v, err := e.pick(r, r.Bytes()*int64(e.size), s)
	if err != nil {
		return err
	}
	if v.protocol == direct {
		return e.direct(r, s, v)
	}
	if v.protocol == ring {
		return e.ringReduceScatter(r, s, v)
	}
	a := e.args
	a.operands(r)
	a.bytes, a.root = uint64(r.Bytes()), everyone
	a.sendStride, a.recvStride = uint64(r.Bytes()), 0
	return e.launchReduction(r, s, scattered, v, r.Bytes())
}

// exchange runs all-gather (stride 0: all peers get the same data) and all-to-all. Large slices go through the copy
// engines if a window allows it, else as messages to one peer after another, or around the ring.
func (e *Engine) exchange(r *collective.Request, s *cuda.Stream) error {
	stride := int64(0)
	if r.Collective == collective.AllToAll {
		stride = r.Bytes()
	}
	if w, err := e.copyWindow(r, e.size); err != nil {
		return err
	} else if w != nil {
		return e.copies(r, s, stride, w)
	}
	v, err := e.pick(r, r.Bytes()*int64(e.size), s)
	if err != nil {
		return err
	}
	staged := e.staged(r)
	if v.protocol == direct && !staged {
		return e.direct(r, s, v)
	}
	if v.protocol == ring && !staged { // an all-gather: canUseRing
		return e.ringAllGather(r, s, v)
	}
	// Streams of messages would overwrite data that an in-place all-to-all has yet to send. Packets are read before they
	// are overwritten.
	inPlace := stride != 0 && r.Send == r.Recv
	if r.Bytes() >= e.sliceFrom() && e.size > 1 && !inPlace || staged {
		e.batch.reset()
		for p := range e.size {
			e.batch.send(p, r.Send.Add(int64(p)*stride), r.Bytes())
			e.batch.recv(p, r.Recv.Add(int64(p)*r.Bytes()), r.Bytes())
		}
		return e.messages(r, s)
	}
	a := e.args
	a.operands(r)
	a.bytes = uint64(r.Bytes())
	a.sendStride, a.recvStride = uint64(stride), uint64(r.Bytes())
	return e.launchMove(s, exchanging, v, r.Bytes())
}

func (e *Engine) allToAllV(r *collective.Request, s *cuda.Stream) error {
	size := r.Type.Size()
	if r.Algorithm != "" {
		v, err := e.named(r)
		if err != nil {
			return err
		}
		e.messagesBy(v)
		defer e.messagesBy(e.table.messages())
	}
	e.batch.reset()
	for p := range e.size {
		e.batch.send(p, r.Send.Add(r.SendDispls[p]*size), r.SendCounts[p]*size)
		e.batch.recv(p, r.Recv.Add(r.RecvDispls[p]*size), r.RecvCounts[p]*size)
	}
	return e.messages(r, s)
}

// gather runs gather and scatter.
func (e *Engine) gather(r *collective.Request, s *cuda.Stream) error {
	v, err := e.pick(r, r.Bytes()*int64(e.size), s)
	if err != nil {
		return err
	}
	if v.protocol == direct && !e.staged(r) {
		return e.direct(r, s, v)
	}
	e.batch.reset()
	own, slice := e.batch.send, e.batch.recv
	ptr, slices := r.Send, r.Recv
	if r.Collective == collective.Scatter {
		own, slice, ptr, slices = slice, own, slices, ptr
	}
	own(r.Root, ptr, r.Bytes())
	for p := 0; p < e.size && e.rank == r.Root; p++ {
		slice(p, slices.Add(int64(p)*r.Bytes()), r.Bytes())
	}
	return e.messages(r, s)
}

// staged reports whether the messages of a collective go through stages.
func (e *Engine) staged(r *collective.Request) bool { return e.zero() && e.stage > 0 && !e.chosen(r) }

// messages runs the messages of a collective.
func (e *Engine) messages(r *collective.Request, s *cuda.Stream) error {
	if e.staged(r) {
		return e.throughStages(s)
	}
	return e.transfers(s)
}

func (e *Engine) barrierOf(_ *collective.Request, s *cuda.Stream) error {
	if !e.zero() {
		return e.barrier(s)
	}
	return e.ordered(s, func() error {
		return e.between(s, e.others(), e.others(), func() error { return nil })
	})
}

// barrier is an all-gather of a dummy word.
func (e *Engine) barrier(s *cuda.Stream) error {
	a := e.args
	a.send, a.recv = uint64(e.launcher.State.Ptr())+stateScratch, uint64(e.launcher.State.Ptr())+stateScratch+64
	a.bytes, a.sendStride, a.recvStride = 8, 0, 8
	return e.launchMove(s, exchanging, variant{protocol: ll, threads: 32}, 8)
}

func (a *collectiveArgs) operands(r *collective.Request) {
	a.send, a.recv = uint64(r.Send), uint64(r.Recv)
	a.op = uint32(r.Op)
	if r.Type.Unsigned() {
		a.op |= unsignedBit
	}
	a.scalar, a.scalarPtr = 0, 0
	if r.Op == datatype.PreMulSum {
		a.scalar, a.scalarPtr = binary.LittleEndian.Uint64(r.Scalar[:]), uint64(r.ScalarPtr)
	}
}

func (e *Engine) launchReduction(r *collective.Request, s *cuda.Stream, what reduction, v variant, work int64) error {
	specialised := special(r.Type, r.Op, e.size)
	aligned := 1
	if v.protocol != lamport {
		aligned = e.kernelFor(&v, specialised)
	}
	f := e.kernels.reduce[what][v.protocol][r.Type][aligned]
	if f == nil {
		return missing(reductionName(what, v.protocol, r.Type, aligned, e.size))
	}
	cfg, err := e.grid(v, work, plain.Bit[int](specialised && (e.sizesAligned() || v.protocol == lamport)))
	if err != nil {
		return err
	}
	return s.LaunchInOrder(f, &cfg, launcher.Raw(e.args), e.launcher.Order)
}

// kernelFor returns 1 if the next launch runs a kernel specialised for the number of ranks, if there is one: all
// addresses and sizes must be multiples of 8 bytes. General kernels exist for LL128 only, except on PCIe. The protocol
// must be the same on all ranks, so it depends on the sizes only: the alignment of buffers may differ between ranks.
func (e *Engine) kernelFor(v *variant, specialised bool) int {
	if (!specialised || !e.sizesAligned()) && !e.table.noLL128 {
		v.protocol = ll128
	}
	return plain.Bit[int](specialised && e.sizesAligned() && (e.args.send|e.args.recv)&7 == 0)
}

// sizesAligned reports whether all sizes of the next launch, which are the same on all ranks, are multiples of 8 bytes.
func (e *Engine) sizesAligned() bool {
	return (e.args.bytes|e.args.sendStride|e.args.recvStride)&7 == 0
}

// launchMove launches a kernel that moves data, independent of its type.
func (e *Engine) launchMove(s *cuda.Stream, what movement, v variant, work int64) error {
	specialised := e.size == 2 || e.size == 4 || e.size == 8
	aligned := e.kernelFor(&v, specialised)
	f := e.kernels.move[what][v.protocol][aligned]
	if f == nil {
		return missing(movementName(what, v.protocol, aligned, e.size))
	}
	cfg, err := e.grid(v, work, plain.Bit[int](specialised && e.sizesAligned()))
	if err != nil {
		return err
	}
	return s.LaunchInOrder(f, &cfg, launcher.Raw(e.args), e.launcher.Order)
}

// grid is the shape of a launch with args, and chooses the area of the arena that its protocol uses. For work bytes
// per slice it has one thread per unit, up to the limit of blocks. All ranks must choose the same grid, so specialised,
// which selects the limit, does not depend on the alignment of this rank's buffers.
func (e *Engine) grid(v variant, work int64, specialised int) (cuda.Config, error) {
	units := v.protocol.units(work)
	threads := min(int64(v.threads), e.slotUnits)
	if units < threads {
		threads = max(32, (units+31)&^31)
	}
	threads = e.call.spread(units, threads)
	most := e.maxBlocks[specialised]
	if v.protocol == lamport {
		most = e.lamportBlocks
	}
	blocks := min(most, e.call.most, (units+threads-1)/threads)
	if v.protocol == ll {
		blocks = min(blocks, llBlocks)
	}
	e.args.window = e.areas[v.protocol]
	wide := blocks > coreBlocks
	e.args.epochs, e.args.slotBytes = uint64(e.launcher.State.Ptr()), uint32(e.slotUnits*16)
	if v.protocol == lamport {
		// Slots of two sizes never share memory: without pieces all are large.
		slot := lamportSlot(lamportCore, e.size)
		if wide = !e.later || work<<plain.Bit[int](v.twoShot) > slot; wide {
			slot = lamportSlot(lamportBytes/2, e.size)
		}
		e.args.epochs, e.args.slotBytes = e.args.epochs+stateLamport, uint32(slot)
	}
	if wide {
		if err := e.need(piece(v.protocol), e.everyRank()); err != nil {
			return cuda.Config{}, err
		}
		e.args.window = e.wide[v.protocol]
	}
	return e.shape(int(blocks), int(threads)), nil
}

// shape is a grid of blocks that may take its place before the previous kernel has ended. That needs more room on the
// GPU than its own blocks, so no launch does if several ranks share the GPU.
func (e *Engine) shape(blocks, threads int) cuda.Config {
	cfg := cuda.Launch1D(blocks, threads, 0)
	if e.overlaps {
		cfg.Flags |= cuda.LaunchOverlapPrevious
	}
	return cfg
}

// submit launches a kernel of this rank after the earlier ones.
func (e *Engine) submit(s *cuda.Stream, f *cuda.Function, blocks, threads int, params []byte) error {
	cfg := e.shape(blocks, threads)
	return s.LaunchInOrder(f, &cfg, params, e.launcher.Order)
}
