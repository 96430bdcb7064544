package shm

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

// Bounds refuses buffers that extend beyond their allocation, before anything runs. The memory behind an allocation may
// be another allocation, and then no access faults. Bounds checks only memory that a host device has allocated.
type Bounds struct {
	Dev   *host.Device   // any one: all of a process know the same memory
	last  [2]host.Region // regions of the latest send and recv, so that a loop needs no lookup
	freed uint64         // host.Freed at that time
}

// Check checks requests of one rank of a communicator.
func (b *Bounds) Check(rank, size int, seq uint64, reqs []collective.Request) error {
	if now := host.Freed(); now != b.freed {
		b.last, b.freed = [2]host.Region{}, now
	}
	for i := range reqs {
		r := &reqs[i]
		send, recv := r.Extents(rank, size)
		err := b.fits(0, "send", r.Send, send)
		if err == nil {
			err = b.fits(1, "recv", r.Recv, recv)
		}
		if err != nil {
			return &collective.Error{Op: r.Collective.String(), Rank: rank, Peer: -1, Seq: seq + uint64(i), Err: err}
		}
	}
	return nil
}

func (b *Bounds) fits(which int, name string, p device.Ptr, n int64) error {
	if l := &b.last[which]; n == 0 || p >= l.Base && n <= l.Size-int64(p-l.Base) {
		return nil
	}
	region, err := b.Dev.Lookup(p)
	if err != nil || !region.Shareable {
		return nil //nolint:nilerr // not a device's memory: its end is not known
	}
	if room := region.Size - int64(p-region.Base); n > room {
		return fmt.Errorf("%w: the %s buffer at %#x takes %d bytes, but its allocation of %d bytes at %#x ends "+
			"%d bytes after that address",
			collective.ErrInvalidArgument, name, uintptr(p), n, region.Size, uintptr(region.Base), room)
	}
	b.last[which] = region
	return nil
}
