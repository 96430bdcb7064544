package host

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/openfiles"
)

// Allocation is a reference to a mapping, made by Alloc, Import or Register.
type Allocation struct {
	dev  *Device
	m    *mapping
	size int64
	once sync.Once
	err  error
}

var _ device.Allocation = (*Allocation)(nil)

// Ptr is the address of the first byte.
func (a *Allocation) Ptr() device.Ptr { return device.Ptr(a.m.base) }

// Size is the requested size in bytes.
func (a *Allocation) Size() int64 { return a.size }

// Pointer returns the address off bytes into the allocation as a pointer, for words that processes share.
func (a *Allocation) Pointer(off int64) unsafe.Pointer {
	if off < 0 || off >= a.size {
		panic(fmt.Sprintf("host: offset %d in an allocation of %d bytes", off, a.size))
	}
	return pointer(a.m.base + uintptr(off))
}

// Bytes returns the whole allocation as a slice. It must not be used after Close.
func (a *Allocation) Bytes() []byte { return device.Bytes(a.Ptr(), a.Size()) }

// Close drops the reference. The last reference of this process unmaps the memory, and the memory is freed when no
// other process maps it.
func (a *Allocation) Close() error {
	a.once.Do(func() {
		a.dev.forget(a)
		a.err = a.m.release()
	})
	return a.err
}

// Alloc returns size bytes of zeroed shared memory, aligned to a page.
func (d *Device) Alloc(size int64) (device.Allocation, error) {
	if err := d.check("alloc"); err != nil {
		return nil, err
	}
	m, err := allocate(d.ID(), size)
	if err != nil {
		return nil, err
	}
	return d.adopt(m, size)
}

// Register makes the caller's memory known to Export, under a handle that is valid in this process only. A Go slice is
// kept alive until Close.
func (d *Device) Register(b []byte) (device.Allocation, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("host: register on %s: the slice is empty", d.ID())
	}
	if err := d.check("register"); err != nil {
		return nil, err
	}
	m := &mapping{base: uintptr(unsafe.Pointer(unsafe.SliceData(b))), size: int64(len(b)), fd: -1, unique: newUnique(),
		owner: d.ID(), refs: 1, keep: b}
	registry.Lock()
	insert(m)
	registry.Unlock()
	return d.adopt(m, m.size)
}

// Export describes the mapping that holds p. Registered memory has a HandleLocal, which no other process can import.
// Memory of another process cannot be exported again: this process keeps only its mapping.
func (d *Device) Export(p device.Ptr) (device.Handle, error) { return d.export(p, true) }

func (d *Device) export(p device.Ptr, forGood bool) (device.Handle, error) {
	if err := d.check("export"); err != nil {
		return device.Handle{}, err
	}
	registry.Lock()
	defer registry.Unlock()
	m := find(uintptr(p))
	if m == nil {
		return device.Handle{}, fmt.Errorf("host: export %#x on %s: %w: it was neither allocated by Alloc nor registered",
			uintptr(p), d.ID(), device.ErrNotShareable)
	}
	h := device.Handle{Type: device.HandleLocal, Owner: m.owner, FD: -1, Base: device.Ptr(m.base), Size: m.size,
		Offset: int64(uintptr(p) - m.base), Unique: m.unique}
	if m.torn {
		return device.Handle{}, fmt.Errorf("host: export %#x on %s: %w: a part of the allocation was revoked after a "+
			"failure; allocate another", uintptr(p), d.ID(), device.ErrNotShareable)
	}
	m.exported = m.exported || forGood
	switch {
	case m.mapped == 0:
		return h, nil
	case m.fd < 0:
		return device.Handle{}, fmt.Errorf("host: export %#x on %s: %w: another process allocated it, and only that one "+
			"can hand it out", uintptr(p), d.ID(), device.ErrNotShareable)
	}
	fd, err := unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return device.Handle{}, fmt.Errorf("host: export %#x on %s: dup: %w", uintptr(p), d.ID(), openfiles.Explain(err))
	}
	h.Type, h.FD = device.HandleFD, fd
	return h, nil
}

// Import maps an export of a host device of this or another process. The descriptor must be a memfd with a sealed size
// and reserved pages, no smaller than the handle's size. Anything else could be truncated later, and reading past its
// end would kill the process.
func (d *Device) Import(h device.Handle) (device.Allocation, error) {
	if err := d.check("import"); err != nil {
		return nil, err
	}
	m, err := lookup(h)
	if err != nil {
		return nil, fmt.Errorf("host: import %d bytes of %s on %s: %w", h.Size, h.Owner, d.ID(), err)
	}
	return d.adopt(m, h.Size)
}

// lookup finds or makes the mapping of h and takes a reference.
func lookup(h device.Handle) (*mapping, error) {
	switch h.Type {
	case device.HandleLocal:
		registry.Lock()
		defer registry.Unlock()
		m := registry.byUnique[h.Unique]
		if m == nil || device.Ptr(m.base) != h.Base || m.size != h.Size {
			return nil, fmt.Errorf("%w: it is registered in another process, or was closed", device.ErrNotShareable)
		}
		m.refs++
		return m, nil
	case device.HandleFD:
		return lookupFD(h)
	}
	return nil, fmt.Errorf("%w: handle type %d", device.ErrUnsupported, h.Type)
}

// checkFD refuses memory that is too short or could be truncated.
func checkFD(h device.Handle) (st unix.Stat_t, err error) {
	if err := unix.Fstat(h.FD, &st); err != nil {
		return st, fmt.Errorf("descriptor %d: %w", h.FD, err)
	}
	if h.Size < 0 || h.Size > st.Size {
		return st, fmt.Errorf("the memory has %d bytes, the handle says %d", st.Size, h.Size)
	}
	seals, err := unix.FcntlInt(uintptr(h.FD), unix.F_GET_SEALS, 0)
	if err != nil {
		return st, fmt.Errorf("descriptor %d is no memfd: %w", h.FD, err)
	}
	if seals&sizeSeals != sizeSeals {
		return st, fmt.Errorf("the memory's size is not sealed (seals %#x)", seals)
	}
	if st.Blocks*512 < h.Size {
		return st, fmt.Errorf("only %d of the memory's %d bytes are reserved", st.Blocks*512, h.Size)
	}
	return st, nil
}

func lookupFD(h device.Handle) (*mapping, error) {
	st, err := checkFD(h)
	if err != nil {
		return nil, err
	}
	// Hold the lock during mmap, so that two importers of one memfd cannot both map it.
	registry.Lock()
	defer registry.Unlock()
	if m := registry.byInode[inode{uint64(st.Dev), st.Ino}]; m != nil {
		m.refs++
		m.size = max(m.size, h.Size)
		return m, nil
	}
	m, err := mapFD(h.FD, st.Size)
	if err != nil {
		return nil, outOfMemory(err)
	}
	m.fd = -1 // the mapping keeps the memory; open descriptors would add up to one per peer of each communicator
	m.size, m.owner, m.unique, m.refs = h.Size, h.Owner, h.Unique, 1
	if m.mapped >= hugePageSize {
		_ = unix.Madvise(unsafe.Slice((*byte)(pointer(m.base)), m.mapped), unix.MADV_HUGEPAGE)
	}
	insert(m)
	return m, nil
}
