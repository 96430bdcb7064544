package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/fdshare"
)

// liveness is a shared page that shows the ranks of this host when this process has died, without any action of the
// process.
//
// The kernel closes the sockets of a killed process only after it has torn down its memory, and one descriptor after
// the other. With GPU memory mapped that can take seconds. A robust futex is faster: the kernel marks it before it
// tears down the memory.
//
//  1. One dedicated thread registers a robust list with one futex: a word in a shared page that holds the thread's id.
//  2. Peers map the page read-only. When the thread dies with its process, the kernel sets futexOwnerDied in the word.
//  3. The last release clears the word and unregisters the list, so that an orderly end does not look like a death.
//
// The list itself is in private memory, so a peer cannot make the kernel write elsewhere. There is one liveness page
// per process, with a reference count.
type liveness struct {
	fd     int
	page   []byte // shared with peers; the futex word is at offset 0
	list   []byte // private
	ticket fdshare.Ticket
	revoke func()
	stop   chan struct{}
	done   chan struct{}
}

const (
	futexOwnerDied = 0x40000000
	pageSize       = 4096
)

// robustHead is the kernel's struct robust_list_head, followed by our only entry.
type robustHead struct {
	next    uintptr // head of the circular list: the entry, which points back here
	offset  int     // from an entry to its futex
	pending uintptr
	entry   uintptr // the entry: only a next pointer
}

const robustHeadSize = 3 * unsafe.Sizeof(uintptr(0))

// sharedLiveness is the liveness page of a process, for all its ranks.
type sharedLiveness struct {
	mu    sync.Mutex
	users int // The references; the page exists while there are any.
	page  *liveness
}

// acquire sets up the page, or takes another reference to it. Each success needs one release.
func (s *sharedLiveness) acquire() (*liveness, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.page == nil {
		b, err := newLiveness()
		if err != nil {
			return nil, fmt.Errorf("liveness page: %w", err)
		}
		s.page = b
	}
	s.users++
	return s.page, nil
}

func (s *sharedLiveness) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		s.page.close()
		s.page = nil
	}
}

func newLiveness() (*liveness, error) {
	b := &liveness{fd: -1, revoke: func() {}, stop: make(chan struct{}), done: make(chan struct{})}
	if err := b.setUp(); err != nil {
		b.free()
		return nil, err
	}
	return b, nil
}

// setUp sets up the liveness page. After an error, free releases what was set up.
func (b *liveness) setUp() (err error) {
	if b.fd, err = unix.MemfdCreate("goccl-liveness", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	if err = unix.Ftruncate(b.fd, pageSize); err != nil {
		return os.NewSyscallError("ftruncate", err)
	}
	if b.page, err = unix.Mmap(b.fd, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if err = b.sealPage(); err != nil {
		return err
	}
	if b.list, err = unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	s, err := fdshare.Shared()
	if err != nil {
		return err
	}
	ticket, revoke, err := s.Offer(b.fd)
	if err != nil {
		return err
	}
	b.ticket, b.revoke = ticket, revoke
	// The server and the mapping keep the page alive.
	fd := b.fd
	b.fd = -1
	if err := unix.Close(fd); err != nil {
		return os.NewSyscallError("close", err)
	}
	ready := make(chan error)
	go b.hold(ready)
	if err := <-ready; err != nil {
		<-b.done
		return err
	}
	return nil
}

// sealPage prevents shrinking, so that reading the page never faults, and writing by others. Kernels before 5.1 lack
// the seal against writing; then a rank of this job could fake our death, which it can also cause in other ways.
func (b *liveness) sealPage() error {
	const size = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	_, err := unix.FcntlInt(uintptr(b.fd), unix.F_ADD_SEALS, size|unix.F_SEAL_FUTURE_WRITE)
	if errors.Is(err, unix.EINVAL) {
		_, err = unix.FcntlInt(uintptr(b.fd), unix.F_ADD_SEALS, size)
	}
	return os.NewSyscallError("fcntl F_ADD_SEALS", err)
}

// hold runs on its own thread until the liveness page ends.
func (b *liveness) hold(ready chan<- error) {
	defer close(b.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The C library may have registered a list for this thread; restore it at the end.
	var old, oldSize uintptr
	if _, _, e := unix.RawSyscall(unix.SYS_GET_ROBUST_LIST, 0, uintptr(unsafe.Pointer(&old)),
		uintptr(unsafe.Pointer(&oldSize))); e != 0 {
		ready <- os.NewSyscallError("get_robust_list", e)
		return
	}
	head := (*robustHead)(unsafe.Pointer(&b.list[0]))
	self := uintptr(unsafe.Pointer(head))
	entry := uintptr(unsafe.Pointer(&head.entry))
	*head = robustHead{next: entry, offset: int(uintptr(unsafe.Pointer(&b.page[0])) - entry), entry: self}
	livenessWord(b.page).Store(uint32(unix.Gettid()))
	if _, _, e := unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, self, robustHeadSize, 0); e != 0 {
		ready <- os.NewSyscallError("set_robust_list", e)
		return
	}
	ready <- nil
	<-b.stop
	livenessWord(b.page).Store(0)
	_, _, _ = unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, old, robustHeadSize, 0)
}

func (b *liveness) close() {
	close(b.stop)
	<-b.done
	b.free()
}

func (b *liveness) free() {
	b.revoke()
	for _, m := range [][]byte{b.page, b.list} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	if b.fd >= 0 {
		_ = unix.Close(b.fd)
	}
}

func livenessWord(page []byte) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&page[0])) }

// watchLiveness maps a peer's liveness page. The caller unmaps it.
func watchLiveness(ctx context.Context, t fdshare.Ticket) ([]byte, error) {
	fd, err := fdshare.Fetch(ctx, t)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	// If the page could still be shrunk, its owner could kill this process with SIGBUS.
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 || st.Size != pageSize {
		return nil, fmt.Errorf("%w: not a liveness page", ErrProtocol)
	}
	return unix.Mmap(fd, 0, pageSize, unix.PROT_READ, unix.MAP_SHARED)
}

func livenessEnded(page []byte) bool { return livenessWord(page).Load()&futexOwnerDied != 0 }
