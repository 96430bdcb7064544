package hostwire

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
)

// box is registered memory with slots. Only this process uses it, so its pages are made when they are first written.
type box struct {
	memory []byte
	region transport.Region
}

func (w *Wire) newBox(size int64) (*box, error) {
	m, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("%w: %d bytes for messages between hosts: %w", device.ErrOutOfMemory, size, err)
	}
	b := &box{memory: m}
	at := device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(m))))
	if b.region, err = w.port.Register(nil, at, size); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// slot is slot k of slots of n bytes.
func (b *box) slot(k uint64, n int64) []byte { return b.memory[int64(k)*n : int64(k+1)*n] }

func (b *box) close() (err error) {
	if b == nil {
		return nil
	}
	if b.region != nil {
		err = b.region.Close()
	}
	return errors.Join(err, unix.Munmap(b.memory))
}
