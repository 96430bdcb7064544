package bootstrap

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// farGroup joins n ranks of this process as if no two were on one host.
func farGroup(t *testing.T, n int) []Bootstrap {
	t.Helper()
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	bs := make([]Bootstrap, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			b, err := JoinID(context.Background(), id, r, n, quiet(), WithInterface("lo"), WithTimeout(time.Minute),
				func(c *config) { c.hostID = fmt.Sprint("far-", r) })
			if err != nil {
				t.Error(err)
			}
			bs[r] = b
		})
	}
	wg.Wait()
	t.Cleanup(func() { closeAll(bs) })
	if t.Failed() {
		t.FailNow()
	}
	return bs
}

func linkOf(b Bootstrap, peer int) *link { return groupOf(b).e.t.(*overlay).neighbours[peer].l }

// Connections are reset at random times, at either end: every message arrives once, in order.
func TestResets(t *testing.T) {
	const n, rounds = 3, 60
	bs := farGroup(t, n)
	stop := make(chan struct{})
	var cutter sync.WaitGroup
	resets, arrived := 0, map[*link]uint64{}
	cutter.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(1+rand.IntN(30)) * time.Millisecond):
			}
			r := rand.IntN(n)
			l := linkOf(bs[r], (r+1+rand.IntN(n-1))%n)
			// On a busy machine connections take longer to come back than to be cut: something must have arrived.
			if now := l.fc.nIn.Load(); now > arrived[l] {
				arrived[l] = now
				l.fc.move.cut()
				resets++
			}
		}
	})
	each(t, bs, func(b Bootstrap) error {
		ctx, r := context.Background(), b.Rank()
		for i := range rounds {
			own := bytes.Repeat([]byte{byte(r), byte(i)}, 1+i*i*100)
			all, err := b.AllGather(ctx, own)
			if err != nil {
				return err
			}
			for p, got := range all {
				if want := bytes.Repeat([]byte{byte(p), byte(i)}, 1+i*i*100); !bytes.Equal(got, want) {
					return fmt.Errorf("round %d: %d bytes of rank %d, want %d", i, len(got), p, len(want))
				}
			}
			for k := range 5 {
				next, before := (r+1)%n, (r+n-1)%n
				if err := b.Send(ctx, next, 7, binary.LittleEndian.AppendUint32(nil, uint32(5*i+k))); err != nil {
					return err
				}
				got, err := b.Recv(ctx, before, 7)
				if err != nil || binary.LittleEndian.Uint32(got) != uint32(5*i+k) {
					return fmt.Errorf("message %d is %v: %w", 5*i+k, got, err)
				}
			}
			time.Sleep(2 * time.Millisecond)
		}
		return nil
	})
	close(stop)
	cutter.Wait()
	t.Logf("%d resets", resets)
	if resets == 0 {
		t.Error("nothing was reset")
	}
}

// A connection that broke on one side only is made again: by the rank that dials, and by the one that does not.
func TestHalfOpen(t *testing.T) {
	for broken := range 2 {
		t.Run(fmt.Sprint(broken), func(t *testing.T) {
			bs := farGroup(t, 2)
			l := linkOf(bs[broken], 1-broken)
			before := l.fc.move.conn()
			_ = before.SetReadDeadline(longAgo) // only this side's reader takes the connection for broken
			each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })
			for end := time.Now().Add(time.Minute); l.fc.move.conn() == before; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("no other connection")
				}
			}
			each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })
		})
	}
}

// A process that has ended refuses connections: it is dead, although the kernel has reset its connections.
func TestResetOfTheDead(t *testing.T) {
	for victim := range 2 {
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			bs := farGroup(t, 2)
			o := groupOf(bs[victim]).e.t.(*overlay)
			o.gate.shut()
			o.cancel() // it does not dial, nor accept
			linkOf(bs[victim], 1-victim).fc.move.cut()
			_, err := bs[1-victim].Recv(context.Background(), victim, 1)
			if !errors.Is(err, ErrPeerDead) || !strings.Contains(err.Error(), fmt.Sprintf("; %d attempts in", goneRefusals)) {
				t.Error(err)
			}
		})
	}
}

// An orderly end is a death, also if the kernel of the peer answers later writes with a reset. A reset is none, also if
// a write has got the error and the reader finds the end.
func TestEndThenReset(t *testing.T) {
	for _, linger := range []int{-1, 0} {
		t.Run(fmt.Sprint(linger), func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = listener.Close() }()
			c, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			peer, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			_ = peer.(*net.TCPConn).SetLinger(linger)
			_ = peer.Close()
			fc := newFrameConn(c, nil, nil)
			fc.last()
			for !fc.down {
				if _, err := fc.c.Write([]byte{1}); err != nil {
					_ = fc.broke(err)
				}
			}
			if _, err := fc.c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if got := fc.reset(); got != (linger == 0) {
				t.Error(got)
			}
		})
	}
}

// Only a neighbour that has dialed the connection may replace it, with the secret.
func TestResumeIsRefused(t *testing.T) {
	bs := farGroup(t, 2)
	accepts := 0
	if dials(0, 1, 2) {
		accepts = 1
	}
	o := groupOf(bs[accepts]).e.t.(*overlay)
	me := greeting{role: roleDialer, world: 2, rank: int32(1 - accepts), target: int32(accepts), session: o.t.session,
		purpose: purposeResume}
	targets := tcpTargets(o.t.members[accepts].addresses(o.d.local))
	for name, try := range map[string]struct {
		secret []byte
		change func(*greeting)
	}{
		"without the secret": {bytes.Repeat([]byte{1}, 32), func(*greeting) {}},
		"as the acceptor":    {o.d.secret, func(g *greeting) { g.rank = int32(accepts) }},
		"another session":    {o.d.secret, func(g *greeting) { g.session[3] ^= 1 }},
		"another target":     {o.d.secret, func(g *greeting) { g.target ^= 1 }},
	} {
		g := me
		try.change(&g)
		if fc, _, err := (&dialer{secret: try.secret}).try(context.Background(), targets[0], g); err == nil {
			fc.close()
			t.Errorf("%s: let in", name)
		}
	}
	if v := groupOf(bs[1-accepts]).e.t.(*overlay).mayResume(accepts); v == verdictOK {
		t.Error("the acceptor may dial")
	}
	each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })

	local := tcpGroup(t, 2)
	for r, b := range local {
		if v := groupOf(b).e.t.(*overlay).mayResume(1 - r); v == verdictOK {
			t.Error("a connection within a host is made again")
		}
	}
}

// Kept frames go when they are acknowledged, and have a bound.
func TestSent(t *testing.T) {
	var s sent
	for i := range 5 {
		s.keep([]byte{byte(i)})
	}
	if list, ok := s.from(3); !ok || len(list) != 2 || list[0][0] != 3 || s.bytes != 2 {
		t.Errorf("%v %v, %d bytes", list, ok, s.bytes)
	}
	for _, counter := range []uint64{2, 6} {
		if _, ok := s.from(counter); ok {
			t.Errorf("frame %d is there", counter)
		}
	}
	s.keep(make([]byte, maxKept))
	if _, ok := s.from(5); ok || s.frames != nil {
		t.Error("too much is kept")
	}
}

// A connection that replaces one that has ended is closed.
func TestMoveAfterClose(t *testing.T) {
	a, b := net.Pipe()
	m := &movable{now: a}
	_ = m.Close()
	m.move(b)
	if _, err := b.Write([]byte{1}); err == nil {
		t.Error("it is open")
	}
}
