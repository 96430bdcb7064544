package share

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/transport/ipc"
	"github.com/goccl/goccl/transport/wire"
)

// maxTicket bounds the ticket in an encoded Descriptor.
const maxTicket = 256

// Descriptor describes an exported allocation, and an address in it, to other processes of the host.
type Descriptor struct {
	Handle  device.Handle // FD is -1
	Process ipc.ID        // the exporter
	Ticket  []byte        // for HandleFD
}

// Exporter is a device, or a part of one, that exports memory.
type Exporter interface {
	Export(p device.Ptr) (device.Handle, error)
}

// Export describes the allocation that holds p. revoke ends the export: existing mappings remain, and no new ones are
// made through a file descriptor. It may be called more than once.
func Export(dev Exporter, p device.Ptr) (d Descriptor, revoke func(), err error) {
	h, err := dev.Export(p)
	if err != nil {
		return Descriptor{}, nil, err
	}
	d = Descriptor{Handle: h, Process: ipc.ProcessID}
	d.Handle.FD = -1
	if h.Type != device.HandleFD {
		return d, func() {}, nil
	}
	d.Ticket, revoke, err = grant(h.FD)
	if cerr := unix.Close(h.FD); err == nil && cerr != nil {
		revoke()
		err = fmt.Errorf("close descriptor %d: %w", h.FD, cerr)
	}
	if err != nil {
		return Descriptor{}, nil, fmt.Errorf("share: export memory of %s: %w", h.Owner, err)
	}
	return d, revoke, nil
}

// grant makes a file descriptor available to holders of the ticket.
func grant(fd int) (ticket []byte, revoke func(), err error) {
	s, err := fdshare.Shared()
	if err != nil {
		return nil, nil, err
	}
	t, revoke, err := s.Offer(fd)
	return t[:], revoke, err
}

// Put appends the descriptor to a record.
func (d *Descriptor) Put(w *wire.Writer) {
	h := &d.Handle
	w.U8(uint8(h.Type))
	w.U8(uint8(h.Owner.Kind))
	w.U16(uint16(h.Owner.Index))
	w.Raw(h.IPC[:])
	w.U64(uint64(h.Base))
	w.U64(uint64(h.Size))
	w.U64(uint64(h.Offset))
	w.U64(h.Unique)
	w.Raw(d.Process[:])
	w.Bytes(d.Ticket)
}

// Get decodes and checks a descriptor.
func Get(r *wire.Reader) (d Descriptor) {
	h := &d.Handle
	h.FD = -1
	h.Type = device.HandleType(r.U8())
	h.Owner.Kind = device.Kind(r.U8())
	h.Owner.Index = int(r.U16())
	copy(h.IPC[:], r.Raw(len(h.IPC)))
	h.Base = device.Ptr(r.U64())
	h.Size = int64(r.U64())
	h.Offset = int64(r.U64())
	h.Unique = r.U64()
	copy(d.Process[:], r.Raw(len(d.Process)))
	d.Ticket = r.Bytes(maxTicket)
	switch {
	case h.Type < device.HandleFD || h.Type > device.HandleLocal:
		r.Fail("handle type %d", h.Type)
	case h.Owner.Kind != device.Host && h.Owner.Kind != device.CUDA:
		r.Fail("device kind %d", h.Owner.Kind)
	case h.Size <= 0 || h.Offset < 0 || h.Offset >= h.Size:
		r.Fail("offset %d in an allocation of %d bytes", h.Offset, h.Size)
	}
	return d
}

// mappable fails if no mapping of d on dev can work.
func (d *Descriptor) mappable(dev device.Device) error {
	owner := d.Handle.Owner
	if d.Handle.Type == device.HandleLocal && d.Process != ipc.ProcessID {
		return fmt.Errorf("share: map memory of another process's %s: %w: %w", owner, device.ErrNotShareable,
			errElsewhere)
	}
	if owner.Kind != dev.ID().Kind {
		return fmt.Errorf("share: map memory of %s on %s: %w: use ethernet between kinds of device", owner, dev.ID(),
			device.ErrUnsupported)
	}
	return nil
}

// errElsewhere is the reason why memory cannot be shared with other processes.
var errElsewhere = errors.New("it is memory that goccl did not allocate; allocate it with Device.Alloc")
