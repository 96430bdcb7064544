package host

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
)

// Lender exports memory that this process may take back (TakeBack). Whoever lends finds out before each use of an allocation, by Lookup's Unique,
// whether it has been taken back, and then exports it again.
type Lender struct{ *Device }

// Export is Device.Export, but leaves Region.Exported alone.
func (l Lender) Export(p device.Ptr) (device.Handle, error) { return l.export(p, false) }

// OwnPages reports whether [p, p+n) is in the region and nothing else is on the pages that hold it.
func (r Region) OwnPages(p device.Ptr, n int64) bool {
	at, page := int64(p-r.Base), int64(os.Getpagesize())
	return p >= r.Base && n > 0 && at+n <= r.Size && at%page == 0 && ((at+n)%page == 0 || at+n == r.Size)
}

// TakeBack puts new memory with the same contents in the place of [p, p+n). Other processes that have mapped the allocation keep the old memory: one
// that was stopped while it wrote does no harm when it goes on. The range must have its pages to itself (Region.OwnPages), and nobody in this
// process may write to it meanwhile.
//
// The Unique of the allocation changes. If the range is all of it, it can be exported again, otherwise no more.
func (d *Device) TakeBack(p device.Ptr, n int64) error {
	if err := d.check("take back"); err != nil {
		return err
	}
	registry.Lock()
	defer registry.Unlock()
	m := find(uintptr(p))
	if m == nil || m.fd < 0 || !m.region().OwnPages(p, n) {
		return fmt.Errorf("host: take back %d bytes at %#x on %s: the range is not whole pages of one allocation", n, uintptr(p), d.ID())
	}
	whole := device.Ptr(m.base) == p && n == m.size
	size := (n + int64(os.Getpagesize()) - 1) &^ (int64(os.Getpagesize()) - 1)
	fresh, err := reserved(m.owner, size)
	if err != nil {
		return err
	}
	copy(device.Bytes(device.Ptr(fresh.base), size), device.Bytes(p, size))
	if _, err := unix.MremapPtr(pointer(fresh.base), uintptr(size), pointer(uintptr(p)), uintptr(size), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		_ = fresh.unmap()
		return fmt.Errorf("host: take back %d bytes at %#x on %s: mremap: %w", n, uintptr(p), d.ID(), err)
	}
	m.unique = newUnique()
	if !whole {
		m.torn = true
		_ = unix.Close(fresh.fd) // the mapping keeps the memory
		return nil
	}
	delete(registry.byInode, m.inode)
	_ = unix.Close(m.fd)
	m.fd, m.inode = fresh.fd, fresh.inode
	registry.byInode[m.inode] = m
	return nil
}
