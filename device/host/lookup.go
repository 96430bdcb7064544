package host

import (
	"fmt"

	"github.com/goccl/goccl/device"
)

// Region is an allocation or registration of this process's host devices.
type Region struct {
	Base device.Ptr
	Size int64
	// Unique is the Handle.Unique of Export. A cache of registrations with key Base must compare it, since an address
	// may have been freed and allocated again.
	Unique uint64
	// Shareable means that other processes can import it: it was allocated, not registered, and no part of it was taken
	// back.
	Shareable bool
	// Exported means that Device.Export was called for it: the importer may rely on this memory permanently.
	Exported bool
}

// Freed counts the allocations and registrations of this process that have ended or were revoked. Results of Lookup
// are valid while it does not change.
func Freed() uint64 { return registry.freed.Load() }

// Lookup finds the allocation that holds p, without exporting it. The error wraps device.ErrNotShareable if no
// allocation or registration holds p.
func (d *Device) Lookup(p device.Ptr) (Region, error) {
	if err := d.check("look up"); err != nil {
		return Region{}, err
	}
	registry.Lock()
	defer registry.Unlock()
	m := find(uintptr(p))
	if m == nil {
		return Region{}, fmt.Errorf("host: look up %#x on %s: %w: it was neither allocated by Alloc nor registered",
			uintptr(p), d.ID(), device.ErrNotShareable)
	}
	return m.region(), nil
}

// region describes m. The caller holds the registry lock.
func (m *mapping) region() Region {
	return Region{Base: device.Ptr(m.base), Size: m.size, Unique: m.unique, Shareable: m.fd >= 0 &&
		!m.torn, Exported: m.exported}
}
