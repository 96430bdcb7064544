package host

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/openfiles"
)

// mapping is one address range of this process that host devices know: shared memory made here or elsewhere, or
// registered memory. refs counts the Allocations that refer to it.
type mapping struct {
	base   uintptr
	size   int64 // usable bytes, as requested
	mapped int64 // bytes to unmap, 0 for registered memory
	fd     int   // of memory allocated here, else -1
	inode  inode // of shared memory of any origin
	unique uint64
	owner  device.ID
	refs   int
	keep   []byte // registered Go memory, kept alive

	exported bool // permanently: see Region
	torn     bool // part of it is not fd's memory: see Revoke
}

// inode identifies a memfd: it is equal for all its descriptors in all processes.
type inode struct{ dev, ino uint64 }

// registry holds all mappings of the process, ordered by address.
var registry = struct {
	sync.Mutex
	byBase   []*mapping
	byInode  map[inode]*mapping
	byUnique map[uint64]*mapping // registered memory only: the number in an imported handle is not verified

	freed atomic.Uint64 // mappings that have left the registry
}{byInode: map[inode]*mapping{}, byUnique: map[uint64]*mapping{}}

// newUnique is never 0. As 64 random bits it distinguishes the allocations of all processes of a machine.
func newUnique() uint64 { return 1 + rand.Uint64N(math.MaxUint64) }

// insert adds m. The caller holds the registry lock.
func insert(m *mapping) {
	registry.byBase = slices.Insert(registry.byBase, above(m.base-1), m)
	if m.mapped != 0 {
		registry.byInode[m.inode] = m
	} else {
		registry.byUnique[m.unique] = m
	}
}

// above is the place of the first mapping that begins behind p.
func above(p uintptr) int {
	return sort.Search(len(registry.byBase), func(i int) bool { return registry.byBase[i].base > p })
}

// find returns the mapping that holds p, or nil. The caller holds the registry lock. Registered ranges may be nested;
// the range that begins last wins.
func find(p uintptr) *mapping {
	for i := above(p) - 1; i >= 0; i-- {
		if m := registry.byBase[i]; p-m.base < uintptr(max(m.size, 1)) { // an empty allocation still has its address
			return m
		}
		if registry.byBase[i].mapped != 0 {
			break // allocated ranges never overlap, so no earlier one holds p
		}
	}
	return nil
}

// release drops one reference and unmaps with the last.
func (m *mapping) release() error {
	registry.Lock()
	m.refs--
	if m.refs > 0 {
		registry.Unlock()
		return nil
	}
	if i := slices.Index(registry.byBase, m); i >= 0 {
		registry.byBase = slices.Delete(registry.byBase, i, i+1)
	}
	if m.mapped != 0 {
		delete(registry.byInode, m.inode)
	} else {
		delete(registry.byUnique, m.unique)
	}
	registry.freed.Add(1)
	registry.Unlock()
	// The mapping can no longer be found, so the slow part needs no lock.
	m.keep = nil
	return m.unmap()
}

func (m *mapping) unmap() error {
	if m.mapped == 0 {
		return nil
	}
	err := unix.MunmapPtr(pointer(m.base), uintptr(m.mapped))
	if m.fd >= 0 {
		if e := unix.Close(m.fd); err == nil {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("host: unmap %d bytes at %#x: %w", m.mapped, m.base, err)
	}
	return nil
}

// pointer turns an address outside the Go heap into a pointer.
func pointer(a uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&a)) }

const (
	hugePageSize = 2 << 20
	sizeSeals    = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	mfdNoExec    = 0x8 // MFD_NOEXEC_SEAL, Linux 6.3
)

// allocate makes, reserves, seals and maps a memfd.
func allocate(owner device.ID, size int64) (*mapping, error) {
	if size < 0 {
		return nil, fmt.Errorf("host: alloc of %d bytes on %s: a size is not negative", size, owner)
	}
	if size > 1<<46 {
		return nil, fmt.Errorf("host: cannot allocate %d bytes on %s: %w", size, owner, device.ErrOutOfMemory)
	}
	mapped := max(1, (size+int64(os.Getpagesize())-1)/int64(os.Getpagesize())) * int64(os.Getpagesize())
	m, err := reserved(owner, mapped)
	if err != nil {
		return nil, err
	}
	m.size, m.owner, m.unique, m.refs = size, owner, newUnique(), 1
	registry.Lock()
	insert(m)
	registry.Unlock()
	return m, nil
}

// reserved makes and maps a memfd of whole pages.
func reserved(owner device.ID, mapped int64) (*mapping, error) {
	if err := checkAvailable(mapped); err != nil {
		return nil, fmt.Errorf("host: cannot allocate %d bytes on %s: %w", mapped, owner, err)
	}
	fd, err := unix.MemfdCreate("goccl", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|mfdNoExec)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate("goccl", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("host: memfd_create on %s: %w", owner, openfiles.Explain(outOfMemory(err)))
	}
	m, err := reserve(fd, mapped)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("host: cannot allocate %d bytes on %s: %w", mapped, owner, outOfMemory(err))
	}
	return m, nil
}

// reserve sets the memfd's size permanently, reserves its pages and maps it.
func reserve(fd int, mapped int64) (*mapping, error) {
	if err := unix.Ftruncate(fd, mapped); err != nil {
		return nil, fmt.Errorf("ftruncate: %w", err)
	}
	m, err := mapFD(fd, mapped)
	if err != nil {
		return nil, err
	}
	if mapped >= hugePageSize {
		// If shared memory may have huge pages, the first access makes them. So touch the pages before fallocate makes
		// small ones. Both calls are only hints; fallocate decides.
		if unix.Madvise(unsafe.Slice((*byte)(pointer(m.base)), mapped), unix.MADV_HUGEPAGE) == nil && sharedHugePages() {
			_ = unix.Madvise(unsafe.Slice((*byte)(pointer(m.base)), mapped), unix.MADV_POPULATE_WRITE)
		}
	}
	if err := fallocate(fd, mapped); err != nil {
		_ = unix.MunmapPtr(pointer(m.base), uintptr(mapped))
		return nil, fmt.Errorf("fallocate: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals|unix.F_SEAL_SEAL); err != nil {
		_ = unix.MunmapPtr(pointer(m.base), uintptr(mapped))
		return nil, fmt.Errorf("seal: %w", err)
	}
	return m, nil
}

func fallocate(fd int, size int64) error {
	for {
		if err := unix.Fallocate(fd, 0, 0, size); err != unix.EINTR {
			return err
		}
	}
}

// mapFD maps the whole of fd. The mapping owns fd, unless the caller resets m.fd.
func mapFD(fd int, mapped int64) (*mapping, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("fstat: %w", err)
	}
	p, err := unix.MmapPtr(fd, 0, nil, uintptr(mapped), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return &mapping{base: uintptr(p), mapped: mapped, fd: fd, inode: inode{uint64(st.Dev), st.Ino}}, nil
}

// outOfMemory adds device.ErrOutOfMemory to the kernel's errors for lack of memory.
func outOfMemory(err error) error {
	for _, e := range []unix.Errno{unix.ENOMEM, unix.ENOSPC, unix.EFBIG} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w (%w)", device.ErrOutOfMemory, err)
		}
	}
	return err
}
