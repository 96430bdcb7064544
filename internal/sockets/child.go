package sockets

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sockets are close-on-exec. But a child that is forked and continues without exec, as Python's workers do, inherits
// them, and while it holds them no peer detects the parent's death. So the child closes them in a pthread_atfork
// handler. The handler cannot use the Go runtime: it reads a table.
//
// The table has a word per descriptor: the inode of the socket that was opened under this number. Closing a socket
// erases nothing. The child closes a descriptor only if its inode is still the recorded one, so other files that reuse
// the number are safe.
const childTableSize = 1 << 16 // descriptors beyond it stay open in children

// childTable makes the table. Its word 0 is one more than the highest recorded descriptor.
var childTable = sync.OnceValue(func() []uint64 {
	b, err := unix.Mmap(-1, 0, childTableSize*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), childTableSize)
})

// ChildTable returns the table, for the process's fork handler. The table is never moved or freed; it is nil if there
// was no memory.
func ChildTable() []uint64 { return childTable() }

// CloseInChild records the socket of a connection or listener for the handler. It ignores values without a descriptor.
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

// Listen is net.Listen for a socket that a forked child closes.
func Listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err == nil {
		CloseInChild(l)
	}
	return l, err
}
