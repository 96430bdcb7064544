package tcp

import (
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/test/mutate"
	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport/peer"
)

// Any bytes of a peer are parsed without a panic, and an accepted packet is encoded to the same bytes.
func FuzzPacket(f *testing.F) {
	f.Add(plain.Bytes(&packet{kind: packetPut, imm: 5, length: 9, region: 1, offset: 2, value: 3, parts: 4}))
	f.Add(plain.Bytes(&packet{kind: packetAck, value: 3}))
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		if len(in) != packetSize {
			return
		}
		p, err := parsePacket(in)
		if err != nil {
			return
		}
		if out := plain.Bytes(&p); string(out) != string(in) {
			t.Errorf("%x is encoded as %x", in, out)
		}
	})
}

func FuzzAddress(f *testing.F) {
	a := address{at: loopback, cred: Credential{Endpoint: 7}, sockets: 3}
	f.Add(a.encode())
	f.Add((&netRegion{id: 3, mem: make([]byte, 9)}).Key())
	mutate.Fuzz(f, func(t *testing.T, in []byte) {
		if a, err := parseAddress(in); err == nil && (a.sockets < 1 || a.sockets > maxSockets || !a.at.IsValid()) {
			t.Errorf("%+v is accepted", a)
		}
		if r, err := peer.ParseKey("tcp", kindRegion, in); err == nil && r.Size() < 0 {
			t.Errorf("%+v is accepted", r)
		}
	})
}

// A peer that knows the secret and sends junk ends its Peer, and nothing else.
func TestJunkFromAPeer(t *testing.T) {
	n := testNet(NetOptions{Sockets: 1})(t)
	a, b := nettest.Open(t, n), nettest.Open(t, n)
	x, y := nettest.Join(t, a, b, 4096)
	u, v := nettest.Join(t, a, b, 4096)
	l := x.Peer.(*Peer).all[1]
	l.mu.Lock()
	w := l.line
	l.line = nil // its writer must not send in between
	l.mu.Unlock()
	if _, err := w.conn.(*net.TCPConn).Write(make([]byte, 3*packetSize)); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*nettest.Side{"sender": x, "receiver": y} {
		select {
		case <-s.Failed():
		case <-time.After(30 * time.Second):
			t.Fatalf("the %s does not notice junk", name)
		}
	}
	if err := u.Put(u.Src, 0, u.Dst, 0, 8, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := v.Wait(t.Context(), 1, 1); err != nil {
		t.Fatal(err)
	}
}

// Peers leave no goroutine and no connection, on whichever side closes first; nor do strangers.
func TestNothingIsLeftOfANet(t *testing.T) {
	before := runtime.NumGoroutine()
	n := testNet(NetOptions{Sockets: 2})(t)
	for i := range 10 {
		a, err := n.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := n.Open(0)
		if err != nil {
			t.Fatal(err)
		}
		x, y := nettest.Join(t, a, b, 4096)
		if c, err := net.Dial("tcp", a.(*Port).Addr().String()); err == nil {
			_ = c.Close()
		}
		if err := x.Put(x.Src, 0, x.Dst, 0, 8, 1, nil); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			_ = y.Close()
		}
		_ = a.Close()
		_ = b.Close()
	}
	eventually(t, "goroutines back to base", func() bool { return runtime.NumGoroutine() <= before })
}
