package sockets

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sockets are close-on-exec. A child that is forked and goes on without exec, as Python's workers do, has them all the same, and while it has them no peer
// sees that the parent has died. So the child closes them, in a handler of pthread_atfork, which cannot use the Go runtime: it reads a table.
//
// The table has a word per descriptor: the inode of the socket that was opened under this number. Nothing is erased on closing. The child closes a
// descriptor whose inode is still the one noted, so what else was opened under the number since is safe.
const childTableSize = 1 << 16 // descriptors beyond it stay open in children

// childTable begins with one more than the highest descriptor noted.
var childTable = sync.OnceValue(func() []uint64 {
	b, err := unix.Mmap(-1, 0, childTableSize*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), childTableSize)
})

// ChildTable is the table, for the handler of a process's forks: never moved, never freed; nil for want of memory.
func ChildTable() []uint64 { return childTable() }

// CloseInChild notes the socket of a connection or listener for the handler. Whatever has no descriptor is left alone.
func CloseInChild(c any) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		t := childTable()
		var st unix.Stat_t
		if fd == 0 || fd >= uintptr(len(t)) || unix.Fstat(int(fd), &st) != nil {
			return
		}
		atomic.StoreUint64(&t[fd], st.Ino)
		for top := atomic.LoadUint64(&t[0]); top <= uint64(fd); top = atomic.LoadUint64(&t[0]) {
			if atomic.CompareAndSwapUint64(&t[0], top, uint64(fd)+1) {
				break
			}
		}
	})
}

// Listen is net.Listen of a socket that a forked child closes.
func Listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err == nil {
		CloseInChild(l)
	}
	return l, err
}
