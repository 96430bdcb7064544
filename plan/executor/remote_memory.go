package executor

import (
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/link"
)

// remoteMemory is what the memories have in common that links of other hosts' ranks change: each takes one kind of
// command, applied on a goroutine of the network. A command that a plan should not send ends this rank's executor, with
// a named reason, and then the link.
type remoteMemory struct{ f *remote }

var (
	_ link.Memory = (*remoteSignal)(nil)
	_ link.Memory = (*remoteBegin)(nil)
	_ link.Memory = (*remoteBuffer)(nil)
	_ link.Memory = (*remoteScratchMemory)(nil)
	_ link.Memory = (*remotePacket)(nil)
)

// refuse ends the executor.
func (m remoteMemory) refuse(format string, args ...any) error {
	err := m.f.h.x.fail(0, -1, mismatch("a rank of another host "+format, args...))
	m.f.h.x.e.Abort(err)
	return fmt.Errorf("%w: %w", transport.ErrBounds, err)
}

func (m remoteMemory) wrong() error { return m.refuse("sends a command that no plan sends") }

func (m remoteMemory) Write([]byte, int64) error { return m.wrong() }
func (m remoteMemory) Add(int64, uint64) error   { return m.wrong() }
func (m remoteMemory) Store(int64, uint64) error { return m.wrong() }
func (m remoteMemory) Signal(int64) error        { return m.wrong() }

// remoteSignal has a word for each link of this rank, to which a peer adds its signals.
type remoteSignal struct{ remoteMemory }

func (m *remoteSignal) Size() int64 { return 8 * int64(m.f.h.x.program.links) }

func (m *remoteSignal) Add(off int64, n uint64) error {
	m.f.h.arenas[m.f.h.x.e.rank].inbound(int(off / 8)).Add(n)
	m.f.wake()
	return nil
}

// remoteBegin has two words for each rank, for even and odd launches: remote.word.
type remoteBegin struct{ remoteMemory }

func (m *remoteBegin) Size() int64 { return 16 * int64(len(m.f.begun)) }

func (m *remoteBegin) Store(off int64, value uint64) error {
	m.f.begun[off/16][off/8%2].Store(value)
	return nil
}

// remoteBuffer is input or output of the launch that runs. The plan's own signals say that it runs.
type remoteBuffer struct {
	remoteMemory
	k int
}

// Size is no bound: Write knows the launch.
func (m *remoteBuffer) Size() int64 { return 1 << 62 }

func (m *remoteBuffer) Write(p []byte, off int64) error {
	f := m.f
	f.mu.RLock()
	defer f.mu.RUnlock()
	switch {
	case !f.granted && f.h.x.e.aborted.Load() != 0:
		return transport.ErrClosed
	case !f.granted:
		return m.refuse("writes to a buffer although no launch of plan %s runs here", f.h.x.plan.Name)
	}
	s := f.h.run.bases[f.h.x.e.rank].buffer[m.k]
	if off > s.size-int64(len(p)) {
		return m.refuse("writes %d bytes at offset %d of a buffer of %d", len(p), off, s.size)
	}
	copy(unsafe.Slice((*byte)(s.base.at(off)), len(p)), p)
	return nil
}

// remoteScratchMemory is a generation of scratch. Puts reach it directly; this is its name.
type remoteScratchMemory struct {
	remoteMemory
	s *scratch
}

func (m *remoteScratchMemory) Size() int64 { return m.s.layouts[m.f.h.x.e.rank].Size }

func (m *remoteScratchMemory) Write(p []byte, off int64) error {
	copy(device.Bytes(m.s.arena.Ptr[m.f.h.x.e.rank].Add(off), int64(len(p))), p)
	return nil
}

// remotePacket takes announcements: a store of epoch and n at off says that the packets of n bytes from off on are
// there.
type remotePacket struct {
	remoteMemory
	s      *scratch
	parity int
}

func (m *remotePacket) Size() int64 { return m.s.plain[m.f.h.x.e.rank] }

func (m *remotePacket) Store(off int64, value uint64) error {
	rank := m.f.h.x.e.rank
	epoch, n := uint32(value>>32), int64(uint32(value))
	if off > m.Size()-n {
		return m.refuse("announces packets of %d bytes at offset %d of %d", n, off, m.Size())
	}
	at := m.s.layouts[rank].Packets[m.parity] + m.s.plain[rank]
	packetFlags{pointerBytes(m.s.arena.Ptr[rank].Add(at))}.set(off, n, epoch)
	m.f.wake()
	return nil
}
