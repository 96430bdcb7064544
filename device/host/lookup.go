package host

import (
	"fmt"

	"github.com/goccl/goccl/device"
)

// Region is an allocation that host devices of this process know.
type Region struct {
	Base device.Ptr
	Size int64
	// Unique is the Handle.Unique that Export would give: a cache of registrations that keys on Base must compare it, since an address may
	// have been freed and allocated again.
	Unique uint64
	// Shareable says that other processes can import it: it was allocated, not registered, and no part of it was taken back.
	Shareable bool
	// Exported says that Device.Export was asked for it: somebody may rely on this memory for good.
	Exported bool
}

// Freed counts the allocations and registrations of this process that have ended: what Lookup said holds as long as it is the same.
func Freed() uint64 { return freed.Load() }

// Lookup finds the allocation that holds p, without exporting it. The error wraps device.ErrNotShareable when no allocation or registration
// does.
func (d *Device) Lookup(p device.Ptr) (Region, error) {
	if err := d.check("look up"); err != nil {
		return Region{}, err
	}
	registry.Lock()
	defer registry.Unlock()
	m := find(uintptr(p))
	if m == nil {
		return Region{}, fmt.Errorf("host: look up %#x on %s: %w: it was neither allocated by Alloc nor registered", uintptr(p), d.ID(), device.ErrNotShareable)
	}
	return m.region(), nil
}

// region describes m; the registry is locked.
func (m *mapping) region() Region {
	return Region{Base: device.Ptr(m.base), Size: m.size, Unique: m.unique, Shareable: m.fd >= 0 && !m.torn, Exported: m.exported}
}
