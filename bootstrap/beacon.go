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

// A beacon is a page that shows the ranks of this host, without our help, that this process is dead.
//
// A killed process hangs up its sockets only after its memory is torn down and in turn with its other descriptors. With a GPU's memory mapped that
// can take seconds. A robust futex comes earlier: the kernel marks it before it touches the memory.
//
//  1. One thread, which does nothing else, registers a robust list with one futex: a word in a shared page that holds the thread's id.
//  2. Peers map the page read-only. When the thread dies, with its process, the kernel sets futexOwnerDied in the word.
//  3. The last release clears the word and takes the list back, so that an orderly end shows nothing.
//
// The list itself is in private memory: a peer cannot make the kernel write elsewhere. One beacon serves the process; it is counted.
type beacon struct {
	fd     int
	page   []byte // shared with peers; the word is at 0
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
	next    uintptr // of the circular list: the entry, which points back here
	offset  int     // from an entry to its futex
	pending uintptr
	entry   uintptr // the entry: only a next pointer
}

const robustHeadSize = 3 * unsafe.Sizeof(uintptr(0))

var beacons struct {
	sync.Mutex
	users int
	b     *beacon
}

// acquireBeacon lights the process's beacon, or finds it lit. Each success needs one releaseBeacon.
func acquireBeacon() (*beacon, error) {
	beacons.Lock()
	defer beacons.Unlock()
	if beacons.b == nil {
		b, err := newBeacon()
		if err != nil {
			return nil, fmt.Errorf("beacon: %w", err)
		}
		beacons.b = b
	}
	beacons.users++
	return beacons.b, nil
}

func releaseBeacon() {
	beacons.Lock()
	defer beacons.Unlock()
	if beacons.users--; beacons.users == 0 {
		beacons.b.close()
		beacons.b = nil
	}
}

func newBeacon() (*beacon, error) {
	b := &beacon{fd: -1, revoke: func() {}, stop: make(chan struct{}), done: make(chan struct{})}
	if err := b.light(); err != nil {
		b.free()
		return nil, err
	}
	return b, nil
}

// light sets everything up; what an error leaves behind is free's.
func (b *beacon) light() (err error) {
	if b.fd, err = unix.MemfdCreate("goccl-beacon", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
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
	if b.list, err = unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
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
	// The offer and the mapping keep the page.
	fd := b.fd
	b.fd = -1
	if err := unix.Close(fd); err != nil {
		return os.NewSyscallError("close", err)
	}
	ready := make(chan error)
	go b.shine(ready)
	if err := <-ready; err != nil {
		<-b.done
		return err
	}
	return nil
}

// sealPage keeps everybody from cutting the page, so that reading it never faults, and from writing it. Kernels before 5.1 know no seal for the
// latter; then a rank of this job could feign our death, which it can bring about in other ways too.
func (b *beacon) sealPage() error {
	const size = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	_, err := unix.FcntlInt(uintptr(b.fd), unix.F_ADD_SEALS, size|unix.F_SEAL_FUTURE_WRITE)
	if errors.Is(err, unix.EINVAL) {
		_, err = unix.FcntlInt(uintptr(b.fd), unix.F_ADD_SEALS, size)
	}
	return os.NewSyscallError("fcntl F_ADD_SEALS", err)
}

// shine holds its thread for the life of the beacon.
func (b *beacon) shine(ready chan<- error) {
	defer close(b.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The C library may have registered a list for this thread; it gets it back.
	var old, oldSize uintptr
	if _, _, e := unix.RawSyscall(unix.SYS_GET_ROBUST_LIST, 0, uintptr(unsafe.Pointer(&old)), uintptr(unsafe.Pointer(&oldSize))); e != 0 {
		ready <- os.NewSyscallError("get_robust_list", e)
		return
	}
	head := (*robustHead)(unsafe.Pointer(&b.list[0]))
	self := uintptr(unsafe.Pointer(head))
	entry := uintptr(unsafe.Pointer(&head.entry))
	*head = robustHead{next: entry, offset: int(uintptr(unsafe.Pointer(&b.page[0])) - entry), entry: self}
	beaconWord(b.page).Store(uint32(unix.Gettid()))
	if _, _, e := unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, self, robustHeadSize, 0); e != 0 {
		ready <- os.NewSyscallError("set_robust_list", e)
		return
	}
	ready <- nil
	<-b.stop
	beaconWord(b.page).Store(0)
	_, _, _ = unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, old, robustHeadSize, 0)
}

func (b *beacon) close() {
	close(b.stop)
	<-b.done
	b.free()
}

func (b *beacon) free() {
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

func beaconWord(page []byte) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&page[0])) }

// watchBeacon maps a peer's beacon. The caller unmaps it.
func watchBeacon(ctx context.Context, t fdshare.Ticket) ([]byte, error) {
	fd, err := fdshare.Fetch(ctx, t)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	// A page that could still be cut would let its owner kill us with SIGBUS.
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 || st.Size != pageSize {
		return nil, fmt.Errorf("%w: not a beacon", ErrProtocol)
	}
	return unix.Mmap(fd, 0, pageSize, unix.PROT_READ, unix.MAP_SHARED)
}

func beaconDied(page []byte) bool { return beaconWord(page).Load()&futexOwnerDied != 0 }
