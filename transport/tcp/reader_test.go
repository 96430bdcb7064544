package tcp

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A message of 64 KiB in the chunks of a ring, as a GPU sends it, is taken from the socket by one system call.
func TestBatchIsOneRead(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		defer func() { _ = unix.Close(fd) }()
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	const size = 4 * (packetSize + 16<<10)
	if n, err := unix.Write(fds[0], make([]byte, size)); n != size || err != nil {
		t.Fatal(n, err)
	}
	if n, err := newReader(nil, &line{}).readv(uintptr(fds[1])); n != size || err != nil {
		t.Errorf("a read takes %d of %d bytes: %v", n, size, err)
	}
}
