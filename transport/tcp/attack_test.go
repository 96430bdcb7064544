package tcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/aead"
	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport"
)

// What passes a relay before the packets, and the length of an encrypted put of putSize bytes.
const (
	sealedJoin              = lengthSize + packetSize + aead.Overhead
	greetingOut, greetingIn = helloSize + 32 + sealedJoin, replySize + lengthSize + aead.Overhead + sealedJoin
	putSize                 = 64
	sealedHead              = packetSize + aead.Overhead
	sealedPut               = sealedHead + putSize + aead.Overhead
	numPuts                 = 4
)

// relay is a man in the middle between a dialler and the listener at to. On its first connection, or on all, it passes
// on the handshake and the join. out gets the puts that follow, and returns what the listener gets instead; in does the
// same with the listener's first packet.
type relay struct {
	to      netip.AddrPort
	out     func(puts [][]byte) [][]byte
	in      func(ack []byte) []byte
	always  bool
	number  atomic.Int32
	greeted chan []byte // gets what the dialler has said on the first connection before the puts, unless nil
}

func (r *relay) run(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			d, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(d)
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func (r *relay) pass(d net.Conn) {
	s, err := net.Dial("tcp", r.to.String())
	if err != nil {
		_ = d.Close()
		return
	}
	honest := r.number.Add(1) > 1 && !r.always
	go func() {
		defer func() { _, _ = d.Close(), s.Close() }()
		if _, err := io.CopyN(d, s, greetingIn); err == nil && r.in != nil && !honest {
			ack := make([]byte, sealedHead)
			_, _ = io.ReadFull(s, ack)
			_, _ = d.Write(r.in(ack))
		}
		_, _ = io.Copy(d, s)
	}()
	defer func() { _, _ = d.Close(), s.Close() }()
	if honest {
		_, _ = io.Copy(s, d)
		return
	}
	var greeting bytes.Buffer
	if _, err := io.CopyN(io.MultiWriter(s, &greeting), d, greetingOut); err != nil {
		return
	}
	if r.greeted != nil {
		r.greeted <- greeting.Bytes()
	}
	if r.out != nil {
		puts := make([][]byte, numPuts)
		for i := range puts {
			puts[i] = make([]byte, sealedPut)
			if _, err := io.ReadFull(d, puts[i]); err != nil {
				return
			}
		}
		_, _ = s.Write(bytes.Join(r.out(puts), nil))
		_ = s.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, d)
		return
	}
	_, _ = io.Copy(s, d)
}

// attacked is a dialler that is connected through a relay with a listener, on one lane.
func attacked(t *testing.T, r *relay, opt NetOptions) (x, y *nettest.Side) {
	t.Helper()
	opt.Encrypt = true
	n := testNet(opt)(t)
	a, b := nettest.Open(t, n), nettest.Open(t, n)
	size := numPuts * putSize
	x, y = nettest.Half(t, a, size), nettest.Half(t, b, size)
	if x.Peer.(*Peer).cred.Endpoint > y.Peer.(*Peer).cred.Endpoint {
		x, y = y, x
	}
	far, err := parseAddress(y.Address())
	if err != nil {
		t.Fatal(err)
	}
	r.to = far.at
	far.at, far.sockets = r.run(t), 1
	x.Peer.(*Peer).all[0].sent = time.Now().Add(time.Hour) // no beat before the puts
	errs := make(chan error, 2)
	go func() { errs <- x.Connect(t.Context(), far.encode()) }()
	go func() { errs <- y.Connect(t.Context(), x.Address()) }()
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	if x.Dst, err = x.Import(y.Own.Key()); err != nil {
		t.Fatal(err)
	}
	for i := range x.Out {
		x.Out[i] = byte(1 + i/putSize)
	}
	return x, y
}

// puts sends the puts in one call.
func puts(t *testing.T, x *nettest.Side) {
	t.Helper()
	p := x.Peer.(*Peer)
	p.Hold()
	defer p.Release()
	for i := range int64(numPuts) {
		if err := x.Put(x.Src, i*putSize, x.Dst, i*putSize, putSize, 1, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
}

// legal checks that each put is there as a whole or not at all.
func legal(t *testing.T, x, y *nettest.Side) {
	t.Helper()
	for at := 0; at < len(y.In); at += putSize {
		got := y.In[at : at+putSize]
		if !bytes.Equal(got, make([]byte, putSize)) && !bytes.Equal(got, x.Out[at:at+putSize]) {
			t.Fatalf("the memory has become % x", y.In)
		}
	}
}

func flip(f []byte, at int) []byte {
	f = bytes.Clone(f)
	f[at] ^= 1
	return f
}

var attacks = map[string]*relay{
	"changes a payload": {out: func(f [][]byte) [][]byte { return [][]byte{flip(f[0], sealedHead), f[1], f[2], f[3]} }},
	"changes an offset": {out: func(f [][]byte) [][]byte { return [][]byte{f[0], flip(f[1], 17), f[2], f[3]} }},
	"changes a tag":     {out: func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], flip(f[2], sealedPut-1), f[3]} }},
	"repeats a put":     {out: func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[1], f[2], f[3]} }},
	"swaps puts":        {out: func(f [][]byte) [][]byte { return [][]byte{f[3], f[1], f[2], f[0]} }},
	"leaves out a put":  {out: func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[3]} }},
	"cuts a payload":    {out: func(f [][]byte) [][]byte { return [][]byte{f[0][:sealedPut-5]} }},
	"cuts between puts": {out: func(f [][]byte) [][]byte { return f[:2] }},
	"forges the answer": {in: func(f []byte) []byte { return flip(f, 24) }},
	"repeats an answer": {in: func(f []byte) []byte { return append(f, f...) }},
}

// Whatever a man in the middle does to a connection, the puts arrive on the next one, once, and no other byte is ever
// written.
func TestWhatARelayDoesIsRepaired(t *testing.T) {
	for name, a := range attacks {
		t.Run(name, func(t *testing.T) {
			r := &relay{out: a.out, in: a.in}
			x, y := attacked(t, r, NetOptions{})
			puts(t, x)
			for y.Arrived(1) < numPuts {
				legal(t, x, y)
				time.Sleep(time.Millisecond)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := x.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			if n := y.Arrived(1); n != numPuts || !bytes.Equal(y.In, x.Out) {
				t.Errorf("%d puts have arrived, % x", n, y.In)
			}
			eventually(t, "another connection", func() bool { return r.number.Load() > 1 })
		})
	}
}

// One who never stops ends the Peer.
func TestARelayThatNeverStops(t *testing.T) {
	r := &relay{out: attacks["changes a payload"].out, always: true}
	x, y := attacked(t, r, NetOptions{Recovery: 200 * time.Millisecond})
	puts(t, x)
	for name, s := range map[string]*nettest.Side{"the dialler": x, "the listener": y} {
		select {
		case <-s.Failed():
			if err := s.Err(); !errors.Is(err, transport.ErrPeerGone) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s has not noticed", name)
		}
	}
	legal(t, x, y)
	if n := y.Arrived(1); n != 0 {
		t.Errorf("%d puts have arrived", n)
	}
}

// A replayed connection has no effect.
func TestAReplayedConnectionIsRefused(t *testing.T) {
	r := &relay{greeted: make(chan []byte, 1)}
	x, y := attacked(t, r, NetOptions{})
	puts(t, x)
	if err := x.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	clear(y.In)
	c, err := net.Dial("tcp", r.to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = c.Write(<-r.greeted)
	if n, err := io.Copy(io.Discard, c); n > replySize || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the listener says %d bytes: %v", n, err)
	}
	puts(t, x) // the recorded connection still works
	if err := x.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if n := y.Arrived(1); n != 2*numPuts || !bytes.Equal(y.In, x.Out) {
		t.Errorf("%d puts have arrived, % x", n, y.In)
	}
}

// port is a Port of the loopback.
func port(t testing.TB, opt NetOptions) *Port {
	t.Helper()
	opt.Log = quiet()
	p, err := NewNet(opt).OpenAt(loopback.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// upper is an exchange that answers in capitals.
func upper(request []byte, from uint64) ([]byte, error) {
	if from != 5 {
		return nil, errors.New("another asker")
	}
	return bytes.ToUpper(request), nil
}

func TestExchange(t *testing.T) {
	a, b := port(t, NetOptions{}), port(t, NetOptions{})
	cred := b.NewExchange(upper)
	for _, size := range []int{0, 5000, maxMessage} {
		request := bytes.Repeat([]byte("x"), size)
		got, err := a.Exchange(t.Context(), b.Addr(), cred, 5, request)
		if err != nil || !bytes.Equal(got, bytes.ToUpper(request)) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if _, err := a.Exchange(t.Context(), b.Addr(), cred, 6, nil); !errors.Is(err, transport.ErrPeerClosed) {
		t.Error("an error is a reply: ", err)
	}
	if _, err := a.Exchange(t.Context(), b.Addr(), cred, 5, make([]byte, maxMessage+1)); err == nil {
		t.Error("a request that is too long is sent")
	}
}

// Who does not know the secret gets no answer, and keeps nobody from being served.
func TestStrangersAreRefused(t *testing.T) {
	a, b := port(t, NetOptions{}), port(t, NetOptions{Timeout: time.Second})
	cred := b.NewExchange(upper)
	ask := func(c Credential) error {
		_, err := a.Exchange(context.Background(), b.Addr(), c, 5, nil)
		return err
	}
	wrong := cred
	wrong.Secret[0] ^= 1
	if err := ask(wrong); !errors.Is(err, ErrAuth) {
		t.Fatalf("wrong secret: %v", err)
	}
	if err := ask(Credential{Endpoint: 5}); !errors.Is(err, ErrAuth) {
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
	if err := ask(cred); err != nil {
		t.Fatal(err)
	}
	// The idle ones are dropped at the timeout.
	_ = idle[0].SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := idle[0].Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an idle connection is still open: %v", err)
	}
	for _, c := range append(idle, garbage) {
		_ = c.Close()
	}
	b.EndExchange(cred)
	if err := ask(cred); !errors.Is(err, ErrAuth) {
		t.Fatalf("an exchange that has ended: %v", err)
	}
}

// More silent connections than the Port accepts, renewed as they are dropped, do not keep a peer from connecting.
func TestAFloodKeepsNobodyOut(t *testing.T) {
	a, b := port(t, NetOptions{}), port(t, NetOptions{})
	stop := make(chan struct{})
	flooded := make(chan struct{}, 1)
	defer close(stop)
	go func() {
		var crowd []net.Conn
		defer func() {
			for _, c := range crowd {
				_ = c.Close()
			}
		}()
		for {
			select {
			case <-stop:
				return
			default:
			}
			c, err := net.Dial("tcp", b.Addr().String())
			if err != nil {
				continue
			}
			if crowd = append(crowd, c); len(crowd) > maxPending+64 {
				select {
				case flooded <- struct{}{}:
				default:
				}
				_ = crowd[0].Close()
				crowd = crowd[1:]
			}
		}
	}()
	<-flooded
	cred := b.NewExchange(upper)
	for range 5 {
		if _, err := a.Exchange(t.Context(), b.Addr(), cred, 5, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWildcardIsRefused(t *testing.T) {
	if _, err := NewNet(NetOptions{}).OpenAt(netip.IPv4Unspecified()); err == nil {
		t.Fatal("a wildcard is accepted")
	}
}
