package record

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/proc"
)

// memoryFile is the file with the regions of this process. It exists while a communicator is open.
type memoryFile struct {
	mu      sync.Mutex
	file    *os.File // nil: closed
	path    string   // of a file in GOCCL_RECORD_DIR; "": a memory file
	head    []byte
	entries int
	size    int64  // of a region
	used    []bool // by region
	live    int    // regions that are mapped
	kept    bool   // a region holds the records of a failure, so the file stays

	failed sync.Once // to open: logged once a process
}

// FileName is the name of the memory file, and begins the name of a file in a folder.
const FileName = "goccl-records"

// header is the first page, nil if the file is closed.
func (f *memoryFile) header() *header {
	if f.head == nil {
		return nil
	}
	return (*header)(unsafe.Pointer(&f.head[0]))
}

// open makes the file. The caller holds mu.
func (f *memoryFile) open(entries int, folder string) (err error) {
	if folder == "" {
		fd, err := unix.MemfdCreate(FileName, unix.MFD_CLOEXEC)
		if err != nil {
			return os.NewSyscallError("memfd_create", err)
		}
		f.file = os.NewFile(uintptr(fd), FileName)
	} else {
		var tag [4]byte
		_, _ = rand.Read(tag[:])
		f.path = filepath.Join(folder, fmt.Sprintf("%s-%d-%s", FileName, os.Getpid(), hex.EncodeToString(tag[:])))
		if f.file, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
	}
	if f.head, err = f.extend(0, headerBytes); err != nil {
		f.close()
		return err
	}
	h := f.header()
	page := int64(os.Getpagesize())
	f.size, f.entries = (regionBytes(entries)+page-1)/page*page, entries
	h.version, h.pid, h.entries, h.size = fileVersion, uint32(os.Getpid()), uint32(entries), uint32(f.size)
	if own, err := proc.Read("/proc", os.Getpid()); err == nil {
		h.born = own.Born
	}
	host, _ := os.Hostname()
	put(h.host[:], []byte(host))
	put(h.program[:], []byte(filepath.Base(os.Args[0])))
	h.clock.start()
	h.magic = fileMagic
	return nil
}

// extend maps n bytes at an offset and reserves them: a full file system is an error here, not a fault at a store.
func (f *memoryFile) extend(offset, n int64) ([]byte, error) {
	fd := int(f.file.Fd())
	if err := unix.Fallocate(fd, 0, offset, n); err != nil {
		return nil, os.NewSyscallError("fallocate", err)
	}
	mem, err := unix.Mmap(fd, offset, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return mem, os.NewSyscallError("mmap", err)
}

// take returns an empty region and its index.
func (f *memoryFile) take(entries int, folder string) (*region, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		if err := f.open(entries, folder); err != nil {
			return nil, 0, err
		}
	}
	index := 0
	for index < len(f.used) && f.used[index] {
		index++
	}
	mem, err := f.extend(headerBytes+int64(index)*f.size, f.size)
	if err != nil {
		if f.live == 0 {
			f.close()
		}
		return nil, 0, err
	}
	if index == len(f.used) {
		f.used = append(f.used, false)
		f.header().regions.Store(uint32(len(f.used)))
	}
	clear(mem)
	f.used[index] = true
	f.live++
	return regionOf(mem, f.entries), index, nil
}

// give ends a region. Its contents stay in the file if keep is true.
func (f *memoryFile) give(r *region, index int, keep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !keep {
		r.state.Store(regionFree)
	}
	_ = unix.Munmap(r.mem)
	f.used[index] = keep && f.path != ""
	f.kept = f.kept || f.used[index]
	if f.live--; f.live == 0 {
		f.close()
	}
}

func (f *memoryFile) close() {
	if f.head != nil {
		_ = unix.Munmap(f.head)
	}
	_ = f.file.Close()
	if f.path != "" && !f.kept {
		_ = os.Remove(f.path)
	}
	f.file, f.head, f.path, f.used, f.kept = nil, nil, "", nil, false
}
