package primitive

import (
	"context"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/share"
	"github.com/goccl/goccl/transport/ipc"
	"github.com/goccl/goccl/transport/wire"
)

const memoryVersion = 3

// Serialize encodes the memory for a peer. The first call exports it. The bytes allow their holder to map or write the
// memory: send them over an authenticated and encrypted channel.
func (m *RegisteredMemory) Serialize() ([]byte, error) {
	var w wire.Writer
	if err := m.put(&w, 0, m.size); err != nil {
		return nil, m.ctx.wrap(err, "serialize memory", NoRank)
	}
	return w.Seal(kindMemory, memoryVersion), nil
}

// put appends the encoding of size bytes of the memory at off.
func (m *RegisteredMemory) put(w *wire.Writer, off, size int64) error {
	if m.dev == nil {
		return fmt.Errorf("%w: only the owner of a memory can serialise it", ErrInvalid)
	}
	var err error
	var desc *share.Descriptor
	if m.flags.Has(IPC) && !m.mapped {
		if desc, err = m.exported(); err != nil {
			return err
		}
	}
	networks := m.named()
	keys := make([][]byte, len(networks))
	for i, t := range networks {
		r, err := m.register(t)
		if err != nil {
			return err
		}
		keys[i] = r.key()
	}
	w.U16(uint16(m.flags))
	w.U8(uint8(m.owner.Kind))
	w.U16(uint16(m.owner.Index))
	host := ipc.HostID()
	w.Raw(host[:])
	w.Raw(ipc.ProcessID[:])
	w.U64(m.id)
	w.U64(uint64(m.ptr.Add(off)))
	w.U64(uint64(size))
	w.U64(uint64(off))
	w.U64(m.name)
	w.U8(uint8(len(networks)))
	for i, t := range networks {
		w.U8(uint8(t))
		w.Bytes(keys[i])
	}
	if desc == nil {
		w.U8(0)
		return nil
	}
	w.U8(1)
	desc.Put(w)
	return nil
}

// exported exports the memory to other processes, once.
func (m *RegisteredMemory) exported() (*share.Descriptor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, ErrClosed
	}
	if m.share == nil {
		s, revoke, err := share.Export(m.dev, m.ptr)
		if err != nil {
			return nil, err
		}
		if s.Handle.Offset > s.Handle.Size-m.size {
			revoke()
			return nil, fmt.Errorf("%w: %d bytes at %#x reach beyond their allocation of %d bytes", ErrInvalid, m.size,
				uintptr(m.ptr), s.Handle.Size)
		}
		m.share, m.revoke = &s, revoke
	}
	return m.share, nil
}

// DeserializeMemory decodes the result of Serialize, in this process or another. It does not map the memory.
func (c *Context) DeserializeMemory(data []byte) (*RegisteredMemory, error) {
	const op = "deserialize memory"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	r := wire.Open(data, kindMemory, memoryVersion)
	m := c.getMemory(r)
	if err := r.Done(); err != nil {
		return nil, failure(op, c.Rank(), NoRank, fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	if err := m.adopt(); err != nil {
		return nil, c.wrap(err, op, NoRank)
	}
	if err := c.own(m); err != nil {
		return nil, c.wrap(err, op, NoRank)
	}
	return m, nil
}

// getMemory decodes and checks a memory.
func (c *Context) getMemory(r *wire.Reader) *RegisteredMemory {
	o := &origin{}
	m := &RegisteredMemory{ctx: c, origin: o}
	m.flags = TransportFlags(r.U16())
	m.owner = getDeviceID(r)
	copy(o.host[:], r.Raw(len(o.host)))
	copy(o.process[:], r.Raw(len(o.process)))
	m.id = r.U64()
	m.ptr = device.Ptr(r.U64())
	m.size = int64(r.U64())
	o.offset = int64(r.U64())
	o.name = r.U64()
	if n := r.U8(); n > 0 {
		o.keys = map[Transport][]byte{}
		for range n {
			t := Transport(r.U8())
			o.keys[t] = r.Bytes(1 << 12)
			if !t.network() {
				r.Fail("a key of %v", t)
			}
		}
	}
	switch r.U8() {
	case 0:
	case 1:
		s := share.Get(r)
		o.share = &s
		if m.size > s.Handle.Size-s.Handle.Offset || o.offset > s.Handle.Size-s.Handle.Offset-m.size {
			r.Fail("%d bytes at offset %d of a share of %d", m.size, o.offset, s.Handle.Size-s.Handle.Offset)
		}
	default:
		r.Fail("share marker")
	}
	if m.flags.None() || m.flags&^AllTransports != 0 {
		r.Fail("transports %#x", uint16(m.flags))
	}
	if m.size <= 0 || o.offset < 0 || o.offset > 1<<62 || m.size > 1<<62 {
		r.Fail("%d bytes at offset %d", m.size, o.offset)
	}
	return m
}

// adopt finds the original of a memory that this process serialised itself.
func (m *RegisteredMemory) adopt() error {
	if m.origin.process != ipc.ProcessID {
		return nil
	}
	live.Lock()
	defer live.Unlock()
	l := live.mem[m.id]
	if l == nil || m.origin.offset > l.size-m.size || l.ptr.Add(m.origin.offset) != m.ptr {
		return fmt.Errorf("%w: the memory was registered in this process and has been closed", ErrInvalid)
	}
	m.origin.local = l
	return nil
}

// bounded derives a context with the parent's deadline or, without one, the Context's timeout.
func (c *Context) bounded(parent context.Context) (context.Context, context.CancelFunc) {
	if _, ok := parent.Deadline(); ok {
		return context.WithCancel(parent)
	}
	return context.WithTimeout(parent, c.opt.timeout)
}
