package nettest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
)

// limit bounds every wait of the suite, on a machine that may be busy.
const limit = 60 * time.Second

// Memory returns size bytes outside of the Go heap, on separate pages.
func Memory(t testing.TB, size int) (device.Ptr, []byte) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), b
}

// Open opens the first adapter. It is closed after the test.
func Open(t testing.TB, n transport.Net) transport.Port {
	t.Helper()
	nics, err := n.NICs()
	if err != nil || len(nics) == 0 {
		t.Fatalf("%s: %d adapters, %v", n.Name(), len(nics), err)
	}
	p, err := n.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("%s: close the port: %v", n.Name(), err)
		}
	})
	return p
}

// Side is one end of a connection with a region for sending and one for receiving.
type Side struct {
	transport.Peer
	Port      transport.Port
	Out, In   []byte
	Src       transport.Region
	Own       transport.Region
	Dst       transport.RemoteRegion // the other side's In
	completed atomic.Int64
}

// Join connects two ports and gives each side regions of size bytes.
func Join(t testing.TB, a, b transport.Port, size int) (x, y *Side) {
	t.Helper()
	x, y = Half(t, a, size), Half(t, b, size)
	errs := make(chan error, 2)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	go func() { errs <- x.Connect(ctx, y.Address()) }()
	go func() { errs <- y.Connect(ctx, x.Address()) }()
	for range 2 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	x.Dst, y.Dst = imported(t, x, y.Own), imported(t, y, x.Own)
	return x, y
}

func imported(t testing.TB, at *Side, r transport.Region) transport.RemoteRegion {
	t.Helper()
	d, err := at.Import(r.Key())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Half is a side that is not connected yet.
func Half(t testing.TB, p transport.Port, size int) *Side {
	t.Helper()
	s := &Side{Port: p}
	outPtr, out := Memory(t, size)
	inPtr, in := Memory(t, size)
	s.Out, s.In = out, in
	var err error
	if s.Src, err = p.Register(nil, outPtr, int64(size)); err != nil {
		t.Fatal(err)
	}
	if s.Own, err = p.Register(nil, inPtr, int64(size)); err != nil {
		t.Fatal(err)
	}
	if s.Peer, err = p.NewPeer(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The memory is unmapped later: no put may touch it then.
		_ = s.Close()
		_ = s.Src.Close()
		_ = s.Own.Close()
	})
	return s
}

// put puts size bytes at the same offset and counts its done.
func (s *Side) put(t testing.TB, off, size int, imm uint32) {
	t.Helper()
	err := s.Put(s.Src, int64(off), s.Dst, int64(off), int64(size), imm, func(err error) {
		if err == nil {
			s.completed.Add(1)
		}
	})
	if err != nil {
		t.Fatalf("put %d bytes at %d: %v", size, off, err)
	}
}

func (s *Side) wait(t testing.TB, imm uint32, n uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Wait(ctx, imm, n); err != nil {
		t.Fatalf("wait for %d puts with %d, of which %d arrived: %v", n, imm, s.Arrived(imm), err)
	}
}

func (s *Side) flush(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := s.Flush(ctx); err != nil {
		t.Fatal("flush: ", err)
	}
}

// fill writes a pattern that depends on seed.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
}

// differ returns the place of the first difference, or -1.
func differ(got, want []byte) int {
	for i := range want {
		if got[i] != want[i] {
			return i
		}
	}
	return -1
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}
