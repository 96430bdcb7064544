package sockets

import (
	"math"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel gets the longest time that it takes, not what 32 bits leave of a longer one: here 704 ms.
func TestTuneForLong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	Tune(c, 1<<32*time.Millisecond+704*time.Millisecond)
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		ms, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		if ms != math.MaxInt32 || err != nil {
			t.Errorf("%d ms, %v", ms, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
