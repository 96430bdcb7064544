package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// memory returns size bytes outside the Go heap.
func memory(t testing.TB, size int) (device.Ptr, []byte) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	return device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))), b
}

func node(t testing.TB, opt Options) *Node {
	t.Helper()
	if opt.Log == nil {
		opt.Log = quiet()
	}
	if opt.Timeout == 0 {
		opt.Timeout = 5 * time.Second
	}
	n, err := Listen(loopback, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func dial(t testing.TB, from, to *Node, opt LinkOptions) *Link {
	t.Helper()
	l, err := from.Dial(context.Background(), to.Addr(), to.NewEndpoint(), 77, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

func TestWriteThenSignalArriveInOrder(t *testing.T) {
	a, b := node(t, Options{}), node(t, Options{})
	const size = 3*maxPayload + 17
	src, srcB := memory(t, size)
	dst, dstB := memory(t, size+64)
	sem, _ := memory(t, transport.TokenSize)
	word, _ := memory(t, 64)
	for i := range srcB {
		srcB[i] = byte(i * 7)
	}
	to := transport.Remote{Region: b.Register(NewHostMemory(dst, size+64, false))}
	token := transport.Remote{Region: b.Register(NewHostMemory(sem, transport.TokenSize, true))}
	l := dial(t, a, b, LinkOptions{})
	if err := errors.Join(l.Write(to.Add(5), src, size), l.Signal(token, 1, true), l.Mark(word, 42)); err != nil {
		t.Fatal(err)
	}
	limit := wait.Limit{Deadline: wait.After(5 * time.Second)}
	if err := wait.At(*(*unsafe.Pointer)(unsafe.Pointer(&sem))).WaitAtLeast(1, limit, nil); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(dstB[5:5+size], srcB) {
		t.Fatal("the signal overtook the data")
	}
	if err := wait.At(*(*unsafe.Pointer)(unsafe.Pointer(&word))).WaitAtLeast(42, limit, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Add(to.Add(8), 1), l.Store(to.Add(16), 9), l.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint64(dstB[16:]); got != 9 {
		t.Fatalf("stored word is %d", got)
	}
}

func TestAPeerCannotWriteOutsideItsRegion(t *testing.T) {
	lost := make(chan error, 8)
	b := node(t, Options{Lost: func(_, _ uint64, err error) { lost <- err }})
	a := node(t, Options{})
	dst, dstB := memory(t, 4096)
	src, _ := memory(t, 4096)
	region := b.Register(NewHostMemory(dst.Add(1024), 1024, false))
	for name, send := range map[string]func(l *Link) error{
		"past the end": func(l *Link) error { return l.Write(transport.Remote{Region: region, Offset: 1020}, src, 8) },
		"offset overflow": func(l *Link) error {
			return l.Write(transport.Remote{Region: region, Offset: 1<<64 - 4}, src,
				8)
		},
		"no such region": func(l *Link) error { return l.Write(transport.Remote{Region: region + 1}, src, 8) },
		"unaligned add":  func(l *Link) error { return l.Add(transport.Remote{Region: region, Offset: 4}, 1) },
		"not a token":    func(l *Link) error { return l.Signal(transport.Remote{Region: region}, 1, true) },
		"store at end":   func(l *Link) error { return l.Store(transport.Remote{Region: region, Offset: 1024}, 1) },
	} {
		broken := make(chan error, 1)
		l := dial(t, a, b, LinkOptions{Broken: func(err error) { broken <- err }})
		if err := send(l); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		select {
		case err := <-broken:
			if !errors.Is(err, transport.ErrBounds) {
				t.Errorf("%s: %v, want ErrBounds", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: not refused", name)
		}
		if err := <-lost; !errors.Is(err, transport.ErrPeerGone) {
			t.Errorf("%s: the listener reports %v", name, err)
		}
		_ = l.Close()
	}
	for i, v := range dstB {
		if v != 0 {
			t.Fatalf("byte %d was written", i)
		}
	}
}

// A peer that does not authenticate must not get a frame accepted, nor keep the Node from serving others.
func TestStrangersAreRefused(t *testing.T) {
	a, b := node(t, Options{}), node(t, Options{Timeout: time.Second})
	cred := b.NewEndpoint()
	wrong := cred
	wrong.Secret[0] ^= 1
	if _, err := a.Dial(context.Background(), b.Addr(), wrong, 0, LinkOptions{}); !errors.Is(err, ErrAuth) {
		t.Fatalf("wrong secret: %v", err)
	}
	if _, err := a.Dial(context.Background(), b.Addr(), Credential{Endpoint: 5}, 0, LinkOptions{}); !errors.Is(err,
		ErrAuth) {
		t.Fatalf("unknown endpoint: %v", err)
	}
	var idle []net.Conn
	for range 64 {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	garbage, _ := net.Dial("tcp", b.Addr().String())
	_, _ = garbage.Write(bytes.Repeat([]byte{0xa5}, 4096))
	l, err := a.Dial(context.Background(), b.Addr(), cred, 0, LinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The idle ones are dropped at the timeout.
	_ = idle[0].SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := idle[0].Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an idle connection is still open: %v", err)
	}
	for _, c := range append(idle, garbage) {
		_ = c.Close()
	}
	b.RemoveEndpoint(cred.Endpoint)
	if _, err := a.Dial(context.Background(), b.Addr(), cred, 0, LinkOptions{}); !errors.Is(err, ErrAuth) {
		t.Fatalf("removed endpoint: %v", err)
	}
}

func TestDeathAndGoodbyeAreToldApart(t *testing.T) {
	lost := make(chan error, 4)
	b := node(t, Options{Lost: func(_, from uint64, err error) {
		if from != 77 {
			t.Errorf("from %d", from)
		}
		lost <- err
	}})
	a := node(t, Options{})
	l := dial(t, a, b, LinkOptions{})
	if err := errors.Join(l.Flush(t.Context()), l.Close()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-lost:
		t.Fatalf("a goodbye was taken for a death: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	broken := make(chan error, 1)
	l = dial(t, a, b, LinkOptions{Broken: func(err error) { broken <- err }})
	_ = l.conn.(*net.TCPConn).SetLinger(0)
	_ = l.conn.Close()
	for name, c := range map[string]chan error{"listener": lost, "dialler": broken} {
		select {
		case err := <-c:
			if !errors.Is(err, transport.ErrPeerGone) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s does not notice the death", name)
		}
	}
	if err := l.Flush(t.Context()); !errors.Is(err, transport.ErrPeerGone) {
		t.Fatalf("flush on a dead link: %v", err)
	}
}

// dialSilent connects a to a listener that admits and then never answers.
func dialSilent(t *testing.T, a *Node) *Link {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	cred := Credential{Endpoint: 3}
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		_, _, _, _ = admit(c, time.Now().Add(5*time.Second), time.Second, func() {},
			func(uint64) (*[32]byte, bool) { return &cred.Secret, true })
	}()
	l, err := a.Dial(context.Background(), ln.Addr().(*net.TCPAddr).AddrPort(), cred, 0, LinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestFlushEndsWithTheContextAndWithTheNode(t *testing.T) {
	a := node(t, Options{})
	l := dialSilent(t, a)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Flush(context.Background()) }()
	time.Sleep(10 * time.Millisecond)
	_ = a.Close()
	select {
	case err := <-done:
		if !errors.Is(err, transport.ErrClosed) {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Close leaves a Flush waiting")
	}
}

// A peer that admits and then reads nothing must not delay Close.
func TestHurryFreesASender(t *testing.T) {
	a := node(t, Options{Timeout: time.Hour})
	l := dialSilent(t, a)
	src, _ := memory(t, 64<<20)
	done := make(chan error, 1)
	go func() { done <- l.Write(transport.Remote{Region: 1}, src, 64<<20) }()
	time.Sleep(100 * time.Millisecond)
	l.Hurry()
	if err := <-done; !errors.Is(err, transport.ErrPeerGone) {
		t.Fatal(err)
	}
}

func TestNoGoroutineAndNoConnectionIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		a, b := node(t, Options{}), node(t, Options{})
		dst, _ := memory(t, 4096)
		region := b.Register(NewHostMemory(dst, 4096, false))
		l := dial(t, a, b, LinkOptions{})
		m := dial(t, b, a, LinkOptions{})
		if err := errors.Join(l.Store(transport.Remote{Region: region}, 3), l.Flush(t.Context()),
			m.Flush(t.Context())); err != nil {
			t.Fatal(err)
		}
		b.Unregister(region)
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "goroutines back to base", func() bool { return runtime.NumGoroutine() <= before })
}

func TestWildcardIsRefused(t *testing.T) {
	if _, err := Listen(netip.MustParseAddrPort("0.0.0.0:0"), Options{}); err == nil {
		t.Fatal("a wildcard is accepted")
	}
}

// TestCloseMeetsDials closes a Node while other goroutines dial: every link that a dial returns has been ended by
// Close.
func TestCloseMeetsDials(t *testing.T) {
	b := node(t, Options{})
	for range 50 {
		a, cred := node(t, Options{}), b.NewEndpoint()
		links := make(chan *Link)
		for range 4 {
			go func() {
				l, _ := a.Dial(context.Background(), b.Addr(), cred, 77, LinkOptions{})
				links <- l
			}()
		}
		time.Sleep(time.Duration(rand.Int64N(int64(2 * time.Millisecond))))
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			if l := <-links; l != nil && l.Err() == nil {
				t.Fatal("a link of a Node that is closed is alive")
			}
		}
	}
}
