package tcp

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/test/nettest"
)

// A flush means arrival, and any goroutine may acknowledge the packets that are applied: a put counts as arrived before
// its packet counts as applied.
func TestArrivalBeforeAcknowledgement(t *testing.T) {
	n := testNet(NetOptions{Sockets: 2})(t)
	x, y := nettest.Join(t, nettest.Open(t, n), nettest.Open(t, n), 1<<20)
	l := y.Peer.(*Peer).all[0]
	const puts = 10
	early, calls := 0, 0
	y.OnArrival(7, func(arrived uint64) {
		if calls++; l.received.Load() >= arrived {
			early++
		}
	})
	for range puts {
		if err := x.Put(x.Src, 0, x.Dst, 0, 8, 7, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := x.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if y.OnArrival(7, nil); calls != puts || early > 0 {
		t.Errorf("%d of %d calls; %d puts counted as applied before they had arrived", calls, puts, early)
	}
}

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
