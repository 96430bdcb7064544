package cuda

import (
	"errors"
	"math/rand/v2"
	"os"
	"syscall"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver"
)

// nonce makes Handle.Unique differ between processes, so that a process recognizes its own handles.
var nonce = rand.Uint64()

// unique mixes an allocation's number with the nonce (splitmix64's finaliser, a bijection).
func unique(id uint64) uint64 {
	x := nonce + id*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// identity holds the facts about the allocation that holds p. Export sends them and Import compares them.
type identity struct {
	info   driver.PointerInfo
	base   driver.Ptr
	size   int64
	unique uint64
	own    bool // Alloc made it
}

// identify fails with ErrNotShareable if p is not GPU memory of this process, or is being freed.
func (d *Device) identify(op string, p device.Ptr) (identity, error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	return d.identifyLocked(op, p)
}

func (d *Device) identifyLocked(op string, p device.Ptr) (identity, error) {
	var id identity
	var err error
	o, ctx := d.gpu.ordinal, d.gpu.ctx
	if id.info, err = ctx.PointerInfo(driver.Ptr(p)); err != nil {
		return id, failAt(o, op, p, err)
	}
	switch {
	case id.info.Type != driver.GPUMemory:
		return id, failKind(o, op, device.ErrNotShareable,
			"%#x is not GPU memory: allocate it with the device or with cudaMalloc", p)
	case id.info.Managed:
		return id, failKind(o, op, device.ErrNotShareable, "%#x is managed memory: use cudaMalloc", p)
	}
	if id.base, id.size, err = ctx.AddressRange(driver.Ptr(p)); err != nil {
		return id, failAt(o, op, p, err)
	}
	switch m := process.mappings[id.base]; {
	case m != nil && m.freed:
		return id, failKind(o, op, device.ErrNotShareable, "%#x is being freed", p)
	case m != nil:
		id.unique, id.own = unique(m.serial<<1|1), true
	case id.info.BufferID != 0:
		id.unique = unique(id.info.BufferID << 1)
	default:
		id.unique = unique(uint64(id.base) << 1)
	}
	return id, nil
}

// Region finds the allocation that holds p, without exporting it; unique is its Handle.Unique. It is not ok for memory
// that Export refuses or another GPU has. Nor is it for memory of cuMemCreate that Alloc did not make: another mapping
// at the same address might not change its unique.
func (d *Device) Region(p device.Ptr) (base device.Ptr, size int64, unique uint64, ok bool) {
	if d.open() != nil {
		return 0, 0, 0, false
	}
	id, err := d.identify("look up", p)
	ok = err == nil && id.info.Ordinal == d.gpu.ordinal && id.info.Pool == 0 &&
		(id.own || id.info.LegacyIPC && id.info.BufferID != 0)
	return device.Ptr(id.base), id.size, id.unique, ok
}

// Export describes the allocation that holds p. The device, cudaMalloc or cuMemCreate may have made it.
func (d *Device) Export(p device.Ptr) (device.Handle, error) {
	const op = "export"
	if err := d.open(); err != nil {
		return device.Handle{}, err
	}
	process.mu.Lock() // the driver crashes where memory is unmapped meanwhile
	defer process.mu.Unlock()
	id, err := d.identifyLocked(op, p)
	if err != nil {
		return device.Handle{}, err
	}
	o := d.gpu.ordinal
	h := device.Handle{Owner: device.ID{Kind: device.CUDA, Index: id.info.Ordinal}, FD: -1, Base: device.Ptr(id.base),
		Size:   id.size,
		Offset: int64(uintptr(p) - id.base), Unique: id.unique}
	switch {
	case id.info.Pool != 0:
		return device.Handle{}, failKind(o, op, device.ErrNotShareable,
			"%#x comes from a stream-ordered pool (cudaMallocAsync): use cudaMalloc, or PYTORCH_CUDA_ALLOC_CONF without "+
				"backend:cudaMallocAsync", p)
	case id.info.LegacyIPC:
		h.Type = device.HandleLegacyIPC
		if h.IPC, err = d.gpu.ctx.IPCGet(id.base); err != nil {
			return device.Handle{}, failAt(o, op, p, err)
		}
	case id.info.HandleTypes&1 != 0:
		h.Type = device.HandleFD
		if h.FD, err = d.gpu.ctx.VMMExport(id.base); err != nil {
			return device.Handle{}, failAt(o, op, p, err)
		}
	default:
		return device.Handle{}, failKind(o, op, device.ErrNotShareable,
			"%#x was made by cuMemCreate without a file-descriptor handle type", p)
	}
	return h, nil
}

// DMABuf exports size bytes at p, which the device or cudaMalloc allocated, to adapters of networks. The bytes are at
// offset in the DMA-BUF. The caller closes fd.
func (d *Device) DMABuf(p device.Ptr, size int64) (fd int, offset int64, err error) {
	const op = "export a DMA-BUF"
	if err := d.open(); err != nil {
		return -1, 0, err
	}
	page := device.Ptr(os.Getpagesize())
	base := p &^ (page - 1)
	end := (p.Add(size) + page - 1) &^ (page - 1)
	if fd, err = d.gpu.ctx.DMABuf(driver.Ptr(base), int64(end-base)); err != nil {
		return -1, 0, failAt(d.gpu.ordinal, op, p, err)
	}
	return fd, int64(p - base), nil
}

// Import maps an exported allocation for this GPU. Ptr of the result is the allocation's base; add Handle.Offset for
// the exported pointer. A handle of the host device is mapped and page-locked.
func (d *Device) Import(h device.Handle) (device.Allocation, error) {
	const op = "import"
	if err := d.open(); err != nil {
		return nil, err
	}
	if h.Size <= 0 || h.Offset < 0 || h.Offset >= h.Size {
		return nil, failKind(d.gpu.ordinal, op, errSize, "offset %d in an allocation of %d bytes", h.Offset, h.Size)
	}
	if h.Owner.Kind == device.Host {
		return d.importHost(h)
	}
	if id, err := d.identify(op, h.Base); err == nil && id.unique == h.Unique && device.Ptr(id.base) == h.Base {
		return d.alias(h, id)
	}
	switch h.Type {
	case device.HandleFD:
		return d.importVMM(h)
	case device.HandleLegacyIPC:
		return d.importLegacy(h)
	}
	return nil, failKind(d.gpu.ordinal, op, device.ErrUnsupported, "handle type %d of %s", h.Type, h.Owner)
}

// alias imports memory of this process itself. It keeps the owner's GPU open, so that peers keep access.
func (d *Device) alias(h device.Handle, id identity) (device.Allocation, error) {
	if id.info.Ordinal != d.gpu.ordinal {
		ok, err := driver.CanAccessPeer(d.gpu.ordinal, id.info.Ordinal)
		if err != nil {
			return nil, fail(d.gpu.ordinal, "import", err)
		}
		if !ok {
			return nil, failKind(d.gpu.ordinal, "import", device.ErrUnsupported, "no peer access to cuda:%d", id.info.Ordinal)
		}
	}
	owner, err := acquire(id.info.Ordinal)
	if err != nil {
		return nil, err
	}
	process.mu.Lock()
	if m := process.mappings[id.base]; m != nil {
		err = d.gpu.reach(m)
	}
	process.mu.Unlock()
	if err != nil {
		_ = owner.release()
		return nil, err
	}
	a := &Allocation{d: d, ptr: h.Base, size: h.Size, free: owner.release}
	return a.keep()
}

// importVMM returns a reservation, so that the memory can be unmapped and mapped again at the same address.
func (d *Device) importVMM(h device.Handle) (device.Allocation, error) {
	r, err := d.Reserve(h.Size)
	if err != nil {
		return nil, err
	}
	if err := r.Map(0, h); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r.(*reservation), nil
}

// importLegacy opens a handle once per process and context and counts its users.
func (d *Device) importLegacy(h device.Handle) (device.Allocation, error) {
	g := d.gpu
	g.mu.Lock()
	s := g.imports[h.IPC]
	if s == nil {
		p, err := g.ctx.IPCOpen(h.IPC)
		if err != nil {
			g.mu.Unlock()
			return nil, fail(g.ordinal, "import", err)
		}
		s = &ipcShare{ptr: p}
		g.imports[h.IPC] = s
	}
	s.refs++
	g.mu.Unlock()
	a := &Allocation{d: d, ptr: device.Ptr(s.ptr), size: h.Size}
	a.free = func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if s.refs--; s.refs > 0 {
			return nil
		}
		delete(g.imports, h.IPC)
		return failAt(g.ordinal, "unmap", s.ptr, g.ctx.IPCClose(s.ptr))
	}
	return a.keep()
}

// importHost maps a memfd of the host device and registers it with the GPU.
func (d *Device) importHost(h device.Handle) (device.Allocation, error) {
	if h.Type != device.HandleFD {
		return nil, failKind(d.gpu.ordinal, "import", device.ErrUnsupported, "host memory without a file descriptor")
	}
	mem, err := syscall.Mmap(h.FD, 0, int(h.Size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fail(d.gpu.ordinal, "import", err)
	}
	r, err := d.HostRegister(device.Ptr(uintptr(unsafe.Pointer(&mem[0]))), h.Size)
	if err != nil {
		_ = syscall.Munmap(mem)
		return nil, err
	}
	unregister := r.free
	r.free = func() error {
		err := unregister()
		if e := syscall.Munmap(mem); err == nil {
			err = failAt(d.gpu.ordinal, "unmap", uintptr(unsafe.Pointer(&mem[0])), e)
		}
		return err
	}
	return r, nil
}
