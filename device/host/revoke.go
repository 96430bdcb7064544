package host

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
)

// Grantor exports memory that this process may revoke (Revoke). Before each use of an allocation, the grantor must
// check by Lookup's Unique whether it was revoked, and then export the allocation again.
type Grantor struct{ *Device }

// Export is Device.Export, but does not set Region.Exported.
func (g Grantor) Export(p device.Ptr) (device.Handle, error) { return g.export(p, false) }

// OwnPages reports whether [p, p+n) is in the region and shares no page with other memory.
func (r Region) OwnPages(p device.Ptr, n int64) bool {
	at, page := int64(p-r.Base), int64(os.Getpagesize())
	return p >= r.Base && n > 0 && at+n <= r.Size && at%page == 0 && ((at+n)%page == 0 || at+n == r.Size)
}

// Revoke replaces the memory at [p, p+n) by new memory with the same contents. Other processes that have mapped the
// allocation keep the old memory, so a process that was stopped during a write does no harm when it continues. The
// range must share no page with other memory (Region.OwnPages), and this process must not write to it meanwhile.
//
// The Unique of the allocation changes. If the range is the whole allocation, it can be exported again, otherwise not.
func (d *Device) Revoke(p device.Ptr, n int64) error {
	if err := d.check("revoke"); err != nil {
		return err
	}
	registry.Lock()
	defer registry.Unlock()
	m := find(uintptr(p))
	if m == nil || m.fd < 0 || !m.region().OwnPages(p, n) {
		return fmt.Errorf("host: revoke %d bytes at %#x on %s: the range is not whole pages of one allocation",
			n, uintptr(p), d.ID())
	}
	whole := device.Ptr(m.base) == p && n == m.size
	size := (n + int64(os.Getpagesize()) - 1) &^ (int64(os.Getpagesize()) - 1)
	fresh, err := reserved(m.owner, size)
	if err != nil {
		return err
	}
	copy(device.Bytes(device.Ptr(fresh.base), size), device.Bytes(p, size))
	if _, err := unix.MremapPtr(pointer(fresh.base), uintptr(size), pointer(uintptr(p)), uintptr(size),
		unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		_ = fresh.unmap()
		return fmt.Errorf("host: revoke %d bytes at %#x on %s: mremap: %w", n, uintptr(p), d.ID(), err)
	}
	m.unique = newUnique()
	registry.freed.Add(1)
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
