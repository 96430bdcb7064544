package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/transport"
)

// far is the part of a host engine that works with ranks of other hosts, over the executor's ports. Its memories
// (far_memory.go) have the same names on all ranks: the plan's number in the executor, and the kind.
type far struct {
	h      *hostEngine
	number uint64
	wake   func()
	told   [][2]atomic.Uint64 // by rank and launch's parity: what begin of that rank says

	mu   sync.RWMutex // read-locked while a put of a peer is copied to input or output; guards lent
	lent bool         // a launch runs, and its input and output can be written

	scratch []transport.Region // registered generations of scratch
}

// The kinds of memory, the low bits of a name.
const (
	farSignals = iota
	farBegins
	farInput
	farOutput
	farScratch
	farPackets // announcements of packets for even launches; one more for odd ones
)

// scratchKinds is the number of kinds from farScratch on: each generation of scratch has them.
const scratchKinds = 3

// name is that of a memory. generation is 0 except for scratch.
func (f *far) name(kind, generation int) uint64 {
	return f.number<<32 | uint64(generation)<<8 | uint64(kind)
}

// openFar registers what exists for the plan's life. All ranks open their plans in the same order, and agree that they
// have before any of them posts.
func openFar(h *hostEngine) *far {
	e := h.x.e
	f := &far{h: h, number: e.ports.plans, wake: func() { h.arenas[e.rank].door().Wake() },
		told: make([][2]atomic.Uint64, e.size)}
	e.ports.plans++
	fixed := farMemory{f: f}
	e.ports.receiver.Register(f.name(farSignals, 0), &farSignal{fixed})
	e.ports.receiver.Register(f.name(farBegins, 0), &farBegin{fixed})
	for k := range 2 {
		e.ports.receiver.Register(f.name(farInput+k, 0), &farBuffer{fixed, k})
	}
	for _, p := range h.x.program.distant {
		for kind := farSignals; kind <= farOutput; kind++ {
			_ = e.ports.out[p].link.Import(f.name(kind, 0), nil) // fails for keys only
		}
	}
	return f
}

// offer registers a generation of scratch and learns those of the peers. failed is this rank's reason to have none. It
// is collective among all ranks; all of them succeed or none.
func (f *far) offer(ctx context.Context, s *scratch, failed error) error {
	h, e := f.h, f.h.x.e
	s.generation = len(f.scratch)
	var key []byte
	if failed == nil {
		own := s.arena.Ptr[e.rank]
		var region transport.Region
		if region, failed = e.ports.port.Register(h.dev, own, max(64, s.layouts[e.rank].Size)); failed == nil {
			f.scratch, key = append(f.scratch, region), region.Key()
		}
	}
	if failed == nil {
		fixed := farMemory{f: f}
		e.ports.receiver.Register(f.name(farScratch, s.generation), &farScratchMemory{fixed, s})
		for k := range 2 {
			e.ports.receiver.Register(f.name(farPackets+k, s.generation), &farPacket{fixed, s, k})
		}
	}
	word := append([]byte{1}, key...)
	if failed != nil {
		word = append([]byte{0}, failed.Error()...)
	}
	all, err := e.boot.AllGather(ctx, word)
	if failed != nil || err != nil {
		return errors.Join(failed, err)
	}
	for r, w := range all {
		if len(w) == 0 || w[0] == 0 {
			return h.x.fail(0, r, fmt.Errorf("rank %d has no scratch: %s", r, w[min(1, len(w)):]))
		}
	}
	for _, p := range h.x.program.distant {
		link := e.ports.out[p].link
		if err := link.Import(f.name(farScratch, s.generation), all[p][1:]); err != nil {
			return h.x.fail(0, p, fmt.Errorf("%w: scratch of rank %d: %w", bootstrap.ErrProtocol, p, err))
		}
		for k := range 2 {
			_ = link.Import(f.name(farPackets+k, s.generation), nil)
		}
	}
	return nil
}

// begin tells the peers what this rank executes, before anything else of the launch, and lets them write.
func (f *far) begin(r *run) {
	if f == nil {
		return
	}
	f.lend(true)
	for _, p := range f.h.x.program.distant {
		f.push(p, post{kind: postStore, value: f.word(r), dst: transport.Remote{Region: f.name(farBegins, 0),
			Offset: 16*uint64(f.h.x.e.rank) + 8*(r.number&1)}})
	}
}

// word says what a launch executes: the launch's number and a hash.
func (f *far) word(r *run) uint64 { return (r.number+1)<<32 | uint64(signature32(&r.Args)) }

// agrees reports whether a peer executes the same, as far as it has told.
func (f *far) agrees(peer int, r *run) bool {
	told, own := f.told[peer][r.number&1].Load(), f.word(r)
	return told>>32 != own>>32 || told == own
}

func (f *far) push(peer int, x post) {
	x.wake = f.wake
	f.h.x.e.ports.out[peer].push(x)
}

// put posts a copy of from to offset at of an operand.
func (f *far) put(r *run, in *instr, pl *plan.Place, at int64, from []byte) error {
	n, off := int64(len(from)), r.offset(pl, at)
	dst := transport.Remote{Region: f.name(farInput+int(pl.Plane), 0), Offset: uint64(off)}
	size := int64(0)
	switch pl.Plane {
	case plan.InputPlane:
		size = r.layout.Size(pl.Rank, plan.Input)
	case plan.OutputPlane:
		size = r.layout.Size(pl.Rank, plan.Output)
	default:
		sl := &r.scratch.layouts[pl.Rank]
		size = r.scratch.plain[pl.Rank]
		base := sl.Plain[r.number&1]
		if pl.Plane == plan.PacketPlane {
			base = sl.Packets[r.number&1]
		}
		dst = transport.Remote{Region: f.name(farScratch, r.scratch.generation), Offset: uint64(base + off)}
	}
	if off < 0 || off > size-n {
		return r.outside(in, pl, off, n, size)
	}
	f.push(pl.Rank, post{dst: dst, src: device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(from)))), n: n})
	return nil
}

// announce posts that the packets of n bytes are there.
func (f *far) announce(r *run, pl *plan.Place, at, n int64) {
	f.push(pl.Rank, post{kind: postStore, value: uint64(r.epoch)<<32 | uint64(n), dst: transport.Remote{
		Region: f.name(farPackets+int(r.number&1), r.scratch.generation), Offset: uint64(r.packetOffset(pl, at))}})
}

// signals posts the op's signals to other hosts. Merged blocks signal links at equal distances: one record for these.
func (f *far) signals(in *instr) {
	prog := f.h.x.program
	for i := 0; i < len(in.links); {
		peer, first, times := prog.peer[in.links[i]], prog.pair[in.links[i]], in.times[i]
		if !prog.isFar(peer) {
			i++
			continue
		}
		count, stride := 1, 0
		for i++; i < len(in.links) && prog.peer[in.links[i]] == peer && in.times[i] == times; i++ {
			step := prog.pair[in.links[i]] - prog.pair[in.links[i-1]]
			if step <= 0 || count > 1 && step != stride {
				break
			}
			count, stride = count+1, step
		}
		f.push(peer, post{kind: postAdd, value: several{uint32(times), uint16(count), uint16(stride)}.word(),
			dst: transport.Remote{Region: f.name(farSignals, 0), Offset: 8 * uint64(first)}})
	}
}

// several is a number of signals on each of count links, stride apart.
type several struct {
	times         uint32
	count, stride uint16
}

func (s several) word() uint64 { return uint64(s.times) | uint64(s.count)<<32 | uint64(s.stride)<<48 }

func severalOf(w uint64) several { return several{uint32(w), uint16(w >> 32), uint16(w >> 48)} }

// settle ends a launch: no peer writes to its buffers any more, and no outbox reads them.
func (f *far) settle(r *run) error {
	f.lend(false)
	var until []uint64
	out := f.h.x.e.ports.out
	for _, p := range f.h.x.program.distant {
		until = append(until, out[p].posted.Load())
	}
	given := func() bool {
		for i, p := range f.h.x.program.distant {
			if out[p].given.Load() < until[i] {
				return false
			}
		}
		return true
	}
	if err := wait.Until(f.h.arenas[f.h.x.e.rank].door(), given, r.limit, f.h.policy); err != nil {
		return f.h.x.e.ended(err, "sending to other hosts")
	}
	if f.h.x.e.aborted.Load() != 0 { // what was posted may have been dropped
		return f.h.x.e.ended(wait.ErrAborted, "it ended")
	}
	return nil
}

// leave is settle after a failure. The outboxes drop what they have, and give up what waits.
func (f *far) leave() {
	if f == nil {
		return
	}
	f.lend(false)
	for _, p := range f.h.x.program.distant {
		o := f.h.x.e.ports.out[p]
		for until := o.posted.Load(); o.given.Load() < until; {
			time.Sleep(10 * time.Microsecond)
		}
	}
}

// lend lets peers write to input and output, or ends that.
func (f *far) lend(lent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lent = lent
}

// close revokes the plan's memories.
func (f *far) close() error {
	if f == nil {
		return nil
	}
	receiver := f.h.x.e.ports.receiver
	for kind := farSignals; kind <= farOutput; kind++ {
		receiver.Unregister(f.name(kind, 0))
	}
	var err error
	for g, region := range f.scratch {
		for k := range scratchKinds {
			receiver.Unregister(f.name(farScratch+k, g))
		}
		err = errors.Join(err, region.Close())
	}
	return err
}
