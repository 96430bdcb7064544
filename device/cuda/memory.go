package cuda

import (
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// Allocation is memory that the device can use: its own, a peer's or another process's.
type Allocation struct {
	d    *Device
	ptr  device.Ptr
	size int64
	free func() error // called once, by Close
}

// Ptr is the device address.
func (a *Allocation) Ptr() device.Ptr { return a.ptr }

// Size is the usable size in bytes.
func (a *Allocation) Size() int64 { return a.size }

// Close unmaps the memory, and frees it if the device owns it. Work that uses the memory must be done.
func (a *Allocation) Close() error {
	if !a.d.drop(a) {
		return nil
	}
	return a.free()
}

func (a *Allocation) destroy() error { return a.free() }

// keep registers a with the device, or frees it if the device is closed.
func (a *Allocation) keep() (device.Allocation, error) {
	if _, err := made(a.d, "", a, nil); err != nil {
		return nil, err
	}
	return a, nil
}

// sized returns the GPU for an allocation of a size.
func (d *Device) sized(what string, size int64) (*gpu, error) {
	if size <= 0 {
		return nil, failKind(d.gpu.ordinal, what, errSize, "%d bytes", size)
	}
	return d.gpu, d.open()
}

// Alloc makes zeroed VMM memory, rounded up to whole pages (2 MiB), so callers should allocate once and divide. Devices
// without VMM get cudaMalloc memory.
func (d *Device) Alloc(size int64) (device.Allocation, error) {
	g, err := d.sized("alloc", size)
	if err != nil {
		return nil, err
	}
	if !g.props.VMM {
		return d.AllocLegacy(size)
	}
	process.mu.Lock()
	mask := uint64(1) << g.ordinal
	for o := range process.gpus {
		if ok, err := driver.CanAccessPeer(o, g.ordinal); err == nil && ok {
			mask |= 1 << o
		}
	}
	v, err := g.ctx.VMMAlloc(g.ordinal, size, mask, g.setup, g.props.RDMA)
	if err != nil && g.props.RDMA && !driver.IsCode(err, driver.OutOfMemory) {
		// The driver may refuse the RDMA capability if the peer-memory kernel module is missing.
		v, err = g.ctx.VMMAlloc(g.ordinal, size, mask, g.setup, false)
	}
	m := &mapping{vmm: v, owner: g.ordinal, mask: mask, serial: process.serial.Add(1)}
	if err == nil {
		process.mappings[v.Ptr] = m
	}
	process.mu.Unlock()
	if err != nil {
		return nil, fail(g.ordinal, "alloc", err)
	}
	a := &Allocation{d: d, ptr: device.Ptr(v.Ptr), size: v.Size}
	a.free = func() error {
		process.mu.Lock()
		m.freed = true
		process.mu.Unlock()
		err := g.ctx.VMMFree(v) // may wait for the GPU
		process.mu.Lock()
		if process.mappings[v.Ptr] == m { // else the address is in use again
			delete(process.mappings, v.Ptr)
		}
		process.mu.Unlock()
		return failAt(g.ordinal, "free", v.Ptr, err)
	}
	return a.keep()
}

// AllocLegacy makes zeroed cudaMalloc memory, which other processes map through legacy IPC.
func (d *Device) AllocLegacy(size int64) (device.Allocation, error) {
	g, err := d.sized("alloc", size)
	if err != nil {
		return nil, err
	}
	p, err := g.ctx.MemAlloc(size)
	if err == nil {
		if err = g.ctx.Memset8(p, 0, size, g.setup); err == nil {
			err = g.ctx.SynchronizeStream(g.setup)
		}
		if err != nil {
			_ = g.ctx.MemFree(p)
		}
	}
	if err != nil {
		return nil, fail(g.ordinal, "alloc", err)
	}
	a := &Allocation{d: d, ptr: device.Ptr(p), size: size}
	a.free = func() error { return failAt(g.ordinal, "free", p, g.ctx.MemFree(p)) }
	return a.keep()
}

// HostMemory is page-locked host memory that the host and every GPU of the process can use.
type HostMemory struct {
	Allocation
	host device.Ptr
}

// Host is the address for the CPU; Ptr is the address for the GPU (the same number with unified addressing).
func (h *HostMemory) Host() device.Ptr { return h.host }

// Pointer returns Host as a pointer. The memory is not on the Go heap.
func (h *HostMemory) Pointer() unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&h.host)) }

// Bytes views the memory. It must not be used after Close.
func (h *HostMemory) Bytes() []byte { return device.Bytes(h.host, h.size) }

// HostAlloc makes zeroed, page-locked, mapped, portable host memory.
func (d *Device) HostAlloc(size int64) (*HostMemory, error) {
	g, err := d.sized("host alloc", size)
	if err != nil {
		return nil, err
	}
	whole := (size + hostPage - 1) / hostPage * hostPage
	b, err := g.hostAlloc(whole)
	if err != nil {
		return nil, fail(g.ordinal, "host alloc", err)
	}
	h := &HostMemory{Allocation: Allocation{d: d, ptr: device.Ptr(b.dev), size: size}, host: device.Ptr(b.host)}
	h.free = func() error { return failAt(g.ordinal, "host free", b.host, g.hostFree(b, whole)) }
	clear(h.Bytes())
	_, err = h.keep()
	return h, err
}

// HostRegister page-locks size bytes of mapped host memory (not of the Go heap) and makes them visible to the GPU until
// Close.
func (d *Device) HostRegister(host device.Ptr, size int64) (*HostMemory, error) {
	if size <= 0 || host == 0 {
		return nil, failKind(d.gpu.ordinal, "host register", errSize, "%d bytes at %#x", size, host)
	}
	if err := d.open(); err != nil {
		return nil, err
	}
	g := d.gpu
	dev, err := g.ctx.HostRegister(driver.Ptr(host), size, driver.HostPortable|driver.HostDeviceMap)
	if err != nil {
		return nil, failAt(g.ordinal, "host register", host, err)
	}
	h := &HostMemory{Allocation: Allocation{d: d, ptr: device.Ptr(dev), size: size}, host: host}
	h.free = func() error {
		return failAt(g.ordinal, "host unregister", host, g.ctx.HostUnregister(driver.Ptr(host)))
	}
	_, err = h.keep()
	return h, err
}
