package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/link"
)

// remote is the part of a host engine that works with ranks of other hosts, over the executor's network. Its memories
// have the same names on all ranks: the plan's number in the executor, and the kind.
type remote struct {
	h      *hostEngine
	number uint64
	begun  [][2]atomic.Uint64 // by rank and launch's parity: what that rank executes, from its begin

	mu      sync.RWMutex // read-locked while a put of a peer is copied to input or output; guards granted
	granted bool         // a launch runs, and its input and output can be written

	scratch []transport.Region // registered generations of scratch
}

// The kinds of memory, the low bits of a name.
const (
	remoteSignals = iota
	remoteBegins
	remoteInput
	remoteOutput
	remoteScratch
	remotePackets // announcements of packets for even launches; one more for odd ones
)

// scratchKinds is the number of kinds from remoteScratch on: each generation of scratch has them.
const scratchKinds = 3

// name returns the number by which peers name a memory. generation is 0 except for scratch.
func (f *remote) name(kind, generation int) uint64 {
	return f.number<<32 | uint64(generation)<<8 | uint64(kind)
}

// openRemote registers what exists for the plan's life. All ranks open their plans in the same order, and agree that
// they have before any of them posts.
func openRemote(h *hostEngine) *remote {
	e := h.x.e
	f := &remote{h: h, number: e.network.plans, begun: make([][2]atomic.Uint64, e.size)}
	e.network.plans++
	e.network.receiver.Register(f.name(remoteSignals, 0),
		&remoteMemory{f: f, size: 8 * int64(h.x.program.links), add: f.signalled})
	e.network.receiver.Register(f.name(remoteBegins, 0), &remoteMemory{f: f, size: 16 * int64(e.size), store: f.hears})
	for k := range 2 { // the size is no bound: writes knows the launch
		e.network.receiver.Register(f.name(remoteInput+k, 0), &remoteMemory{f: f, size: 1 << 62,
			write: func(p []byte, off int64) error { return f.writes(k, p, off) }})
	}
	for _, p := range h.x.program.distant {
		for kind := remoteSignals; kind <= remoteOutput; kind++ {
			_ = e.network.out[p].Load().link.Import(f.name(kind, 0), nil) // fails for keys only
		}
	}
	return f
}

// offer registers a generation of scratch and learns the peers' keys. failed is this rank's reason to have none. It is
// collective among all ranks; all of them succeed or none.
func (f *remote) offer(ctx context.Context, s *scratch, failed error) error {
	h, e := f.h, f.h.x.e
	s.generation = len(f.scratch)
	var key []byte
	if failed == nil {
		own := s.arena.Ptr[e.rank]
		var region transport.Region
		if region, failed = e.network.port.Register(h.dev, own, max(64, s.layouts[e.rank].Size)); failed == nil {
			f.scratch, key = append(f.scratch, region), region.Key()
		}
	}
	if failed == nil {
		e.network.receiver.Register(f.name(remoteScratch, s.generation),
			&remoteMemory{f: f, size: s.layouts[e.rank].Size, write: func(p []byte, off int64) error {
				copy(device.Bytes(s.arena.Ptr[e.rank].Add(off), int64(len(p))), p)
				return nil
			}})
		for k := range 2 {
			e.network.receiver.Register(f.name(remotePackets+k, s.generation), &remoteMemory{f: f, size: s.plain[e.rank],
				store: func(off int64, value uint64) error { return f.packets(s, k, off, value) }})
		}
	}
	word := append([]byte{1}, key...)
	if failed != nil {
		word = append([]byte{0}, failed.Error()...)
	}
	all, err := e.cfg.Bootstrap.AllGather(ctx, word)
	if failed != nil || err != nil {
		return errors.Join(failed, err)
	}
	for r, w := range all {
		if len(w) == 0 || w[0] == 0 {
			return h.x.fail(0, r, fmt.Errorf("rank %d has no scratch: %s", r, w[min(1, len(w)):]))
		}
	}
	for _, p := range h.x.program.distant {
		to := e.network.out[p].Load().link
		if err := to.Import(f.name(remoteScratch, s.generation), all[p][1:]); err != nil {
			return h.x.fail(0, p, fmt.Errorf("%w: scratch of rank %d: %w", bootstrap.ErrProtocol, p, err))
		}
		for k := range 2 {
			_ = to.Import(f.name(remotePackets+k, s.generation), nil)
		}
	}
	return nil
}

// begin tells the peers what this rank executes, before anything else of the launch, and lets them write.
func (f *remote) begin(r *run) {
	if f == nil {
		return
	}
	f.grant(true)
	dst := transport.Remote{Region: f.name(remoteBegins, 0), Offset: 16*uint64(f.h.x.e.rank) + 8*(r.number&1)}
	for _, p := range f.h.x.program.distant {
		f.h.x.e.network.send(p, func(l *link.Link) error { return l.Store(dst, f.word(r)) })
	}
}

// word says what a launch executes: the launch's number and a hash.
func (f *remote) word(r *run) uint64 { return (r.number+1)<<32 | uint64(signature32(&r.Args)) }

// agrees reports whether a peer executes the same, as far as this rank has received that.
func (f *remote) agrees(peer int, r *run) bool {
	its, own := f.begun[peer][r.number&1].Load(), f.word(r)
	return its>>32 != own>>32 || its == own
}

// put sends from to offset at of an operand.
func (f *remote) put(r *run, in *instr, pl *plan.Place, at int64, from []byte) error {
	n, off := int64(len(from)), r.offset(pl, at)
	dst := transport.Remote{Region: f.name(remoteInput+int(pl.Plane), 0), Offset: uint64(off)}
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
		dst = transport.Remote{Region: f.name(remoteScratch, r.scratch.generation), Offset: uint64(base + off)}
	}
	if off < 0 || off > size-n {
		return r.outside(in, pl, off, n, size)
	}
	src := device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(from))))
	f.h.x.e.network.send(pl.Rank, func(l *link.Link) error { return l.Write(dst, src, n) })
	return nil
}

// announce says that the packets of n bytes are there.
func (f *remote) announce(r *run, pl *plan.Place, at, n int64) {
	dst := transport.Remote{Region: f.name(remotePackets+int(r.number&1), r.scratch.generation),
		Offset: uint64(r.packetOffset(pl, at))}
	word := uint64(r.epoch)<<32 | uint64(n)
	f.h.x.e.network.send(pl.Rank, func(l *link.Link) error { return l.Store(dst, word) })
}

// signals sends the op's signals to other hosts.
func (f *remote) signals(in *instr) {
	prog := f.h.x.program
	for _, l := range in.links {
		if peer := prog.peer[l]; prog.isRemote(peer) {
			dst := transport.Remote{Region: f.name(remoteSignals, 0), Offset: 8 * uint64(prog.pair[l])}
			f.h.x.e.network.send(peer, func(to *link.Link) error { return to.Add(dst, 1) })
		}
	}
}

// settle ends a launch: no peer writes to its buffers any more.
func (f *remote) settle() error {
	f.grant(false)
	if f.h.x.e.aborted.Load() != 0 { // operations may have been dropped
		return f.h.x.e.ended(wait.ErrAborted, "it ended")
	}
	return nil
}

// grant lets peers write to input and output, or ends that.
func (f *remote) grant(granted bool) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.granted = granted
}

// close revokes the plan's memories.
func (f *remote) close() error {
	if f == nil {
		return nil
	}
	receiver := f.h.x.e.network.receiver
	for kind := remoteSignals; kind <= remoteOutput; kind++ {
		receiver.Unregister(f.name(kind, 0))
	}
	var err error
	for g, region := range f.scratch {
		for k := range scratchKinds {
			receiver.Unregister(f.name(remoteScratch+k, g))
		}
		err = errors.Join(err, region.Close())
	}
	return err
}

// remoteMemory is a memory that links of other hosts' ranks change. It takes one kind of command, which is applied on a
// goroutine of the network; the functions for other kinds are nil. A command that a plan should not send ends this
// rank's executor, with a named reason, and then the link.
type remoteMemory struct {
	f          *remote
	size       int64
	write      func(p []byte, off int64) error
	add, store func(off int64, value uint64) error
}

var _ link.Memory = (*remoteMemory)(nil)

func (m *remoteMemory) Size() int64 { return m.size }

func (m *remoteMemory) Write(p []byte, off int64) error {
	if m.write == nil {
		return m.f.wrong()
	}
	return m.write(p, off)
}

func (m *remoteMemory) Add(off int64, value uint64) error { return m.f.word64(m.add, off, value) }

func (m *remoteMemory) Store(off int64, value uint64) error { return m.f.word64(m.store, off, value) }

func (m *remoteMemory) Signal(int64) error { return m.f.wrong() }

func (f *remote) word64(apply func(int64, uint64) error, off int64, value uint64) error {
	if apply == nil {
		return f.wrong()
	}
	return apply(off, value)
}

// refuse ends the executor.
func (f *remote) refuse(format string, args ...any) error {
	err := f.h.x.fail(0, -1, mismatch("a rank of another host "+format, args...))
	f.h.x.e.Abort(err)
	return fmt.Errorf("%w: %w", transport.ErrBounds, err)
}

func (f *remote) wrong() error { return f.refuse("sends a command that no plan sends") }

// signalled adds a peer's signals. The memory has a word for each link of this rank.
func (f *remote) signalled(off int64, n uint64) error {
	f.h.arenas[f.h.x.e.rank].inbound(int(off / 8)).Add(n)
	f.h.wake()
	return nil
}

// hears stores a peer's remote.word. The memory has two words for each rank, for even and odd launches.
func (f *remote) hears(off int64, value uint64) error {
	f.begun[off/16][off/8%2].Store(value)
	return nil
}

// writes stores to input (k 0) or output of the launch that runs. The plan's own signals say that it runs.
func (f *remote) writes(k int, p []byte, off int64) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	switch {
	case !f.granted && f.h.x.e.aborted.Load() != 0:
		return transport.ErrClosed
	case !f.granted:
		return f.refuse("writes to a buffer although no launch of plan %s runs here", f.h.x.plan.Name)
	}
	s := f.h.run.bases[f.h.x.e.rank].buffer[k]
	if off > s.size-int64(len(p)) {
		return f.refuse("writes %d bytes at offset %d of a buffer of %d", len(p), off, s.size)
	}
	copy(unsafe.Slice((*byte)(s.base.at(off)), len(p)), p)
	return nil
}

// packets takes an announcement: a store of epoch and n at off says that the packets of n bytes from off on are there.
func (f *remote) packets(s *scratch, parity int, off int64, value uint64) error {
	rank := f.h.x.e.rank
	epoch, n := uint32(value>>32), int64(uint32(value))
	if off > s.plain[rank]-n {
		return f.refuse("announces packets of %d bytes at offset %d of %d", n, off, s.plain[rank])
	}
	at := s.layouts[rank].Packets[parity] + s.plain[rank]
	packetFlags{pointerBytes(s.arena.Ptr[rank].Add(at))}.set(off, n, epoch)
	f.h.wake()
	return nil
}
