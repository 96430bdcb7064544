package ipc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport/wire"
)

// maxTicket bounds the ticket in a serialised Share.
const maxTicket = 256

// Share describes an exported allocation for other processes of the host.
type Share struct {
	Handle  device.Handle // FD is -1
	Process ID            // the exporter
	Ticket  []byte        // for HandleFD
}

// Offer exports the allocation that holds p. revoke ends the offer and may be called more than once.
func Offer(dev device.Device, p device.Ptr) (s Share, revoke func(), err error) {
	h, err := dev.Export(p)
	if err != nil {
		return Share{}, nil, err
	}
	s = Share{Handle: h, Process: ProcessID}
	s.Handle.FD = -1
	revoke = func() {}
	if h.Type == device.HandleFD {
		s.Ticket, revoke, err = offerFD(h.FD)
		if cerr := unix.Close(h.FD); err == nil && cerr != nil {
			err = fmt.Errorf("close descriptor %d: %w", h.FD, cerr)
		}
		if err != nil {
			return Share{}, nil, fmt.Errorf("ipc: offer memory of %s: %w", dev.ID(), err)
		}
	}
	return s, revoke, nil
}

// Put appends the share to a record.
func (s *Share) Put(w *wire.Writer) {
	h := &s.Handle
	w.U8(uint8(h.Type))
	w.U8(uint8(h.Owner.Kind))
	w.U16(uint16(h.Owner.Index))
	w.Raw(h.IPC[:])
	w.U64(uint64(h.Base))
	w.U64(uint64(h.Size))
	w.U64(uint64(h.Offset))
	w.U64(h.Unique)
	w.Raw(s.Process[:])
	w.Bytes(s.Ticket)
}

// GetShare decodes and checks a share.
func GetShare(r *wire.Reader) (s Share) {
	h := &s.Handle
	h.FD = -1
	h.Type = device.HandleType(r.U8())
	h.Owner.Kind = device.Kind(r.U8())
	h.Owner.Index = int(r.U16())
	copy(h.IPC[:], r.Raw(len(h.IPC)))
	h.Base = device.Ptr(r.U64())
	h.Size = int64(r.U64())
	h.Offset = int64(r.U64())
	h.Unique = r.U64()
	copy(s.Process[:], r.Raw(len(s.Process)))
	s.Ticket = r.Bytes(maxTicket)
	switch {
	case h.Type < device.HandleFD || h.Type > device.HandleLocal:
		r.Fail("handle type %d", h.Type)
	case h.Owner.Kind != device.Host && h.Owner.Kind != device.CUDA:
		r.Fail("device kind %d", h.Owner.Kind)
	case h.Size <= 0 || h.Offset < 0 || h.Offset >= h.Size:
		r.Fail("offset %d in an allocation of %d bytes", h.Offset, h.Size)
	}
	return s
}

// errElsewhere is the reason why memory cannot be shared with other processes.
var errElsewhere = errors.New("it is memory that goccl did not allocate; allocate it with Device.Alloc")
