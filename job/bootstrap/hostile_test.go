package bootstrap

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"

	"github.com/goccl/goccl/internal/plain"
)

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func logged(l *logBuffer) Option { return WithLogger(slog.New(slog.NewTextHandler(l, nil))) }

// joinAll joins n ranks through id.
func joinAll(t *testing.T, id UniqueID, n int, opts ...Option) []Bootstrap {
	t.Helper()
	bs := make([]Bootstrap, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			b, err := JoinID(context.Background(), id, r, n, append([]Option{quiet(), WithInterface("lo"),
				WithTimeout(30 * time.Second)}, opts...)...)
			if err != nil {
				t.Error(err)
			}
			bs[r] = b
		})
	}
	wg.Wait()
	t.Cleanup(func() { closeAll(bs) })
	return bs
}

// intruder is one way to disturb the joining at the root's address.
type intruder struct {
	name string
	act  func(t *testing.T, id UniqueID, addr string)
	log  string // the expected log of the root
}

func raw(send func(c net.Conn)) func(t *testing.T, id UniqueID, addr string) {
	return func(t *testing.T, _ UniqueID, addr string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		send(c)
		_, _ = io.Copy(io.Discard, c)
	}
}

// insider passes the handshake as rank and then misbehaves.
func insider(rank, world int, f func(fc *frameConn)) func(t *testing.T, id UniqueID, addr string) {
	return func(t *testing.T, id UniqueID, addr string) {
		fields, err := id.decode()
		if err != nil {
			t.Error(err)
			return
		}
		d := &dialer{secret: fields.secret[:]}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		fc, _, err := d.dial(ctx, []target{{network: "tcp", address: addr}},
			greeting{role: roleJoiner, world: uint32(world), rank: int32(rank), target: -1}, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer fc.close()
		f(fc)
		_ = fc.c.SetDeadline(time.Now().Add(30 * time.Second))
		_, _ = io.Copy(io.Discard, fc.c)
	}
}

// TestIntruders lets three of four ranks join, then the intruder act, then the fourth rank join: the job must start.
func TestIntruders(t *testing.T) {
	good := greeting{version: protocolVersion, role: roleJoiner, world: 4, rank: 3, target: -1}
	for _, in := range []intruder{
		{"wrong secret", func(t *testing.T, id UniqueID, _ string) {
			f, err := id.decode()
			if err != nil {
				t.Error(err)
			}
			f.secret[5] ^= 1
			if _, err := JoinID(context.Background(), f.encode(), 3, 4, quiet(),
				WithTimeout(30*time.Second)); !errors.Is(err, ErrAuth) {
				t.Errorf("got %v", err)
			}
		}, `reason="wrong secret"`},
		{"rank out of range", func(t *testing.T, id UniqueID, addr string) {
			f, _ := id.decode()
			d := &dialer{secret: f.secret[:]}
			for _, r := range []int32{4, -1, 1 << 30} {
				if _, _, err := d.try(context.Background(), target{network: "tcp", address: addr},
					greeting{role: roleJoiner, world: 4, rank: r, target: -1}); !errors.Is(err, ErrRankRange) {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		}, `reason="rank out of range"`},
		{"garbage", raw(func(c net.Conn) { _, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")) }), `reason=garbage`},
		{"random bytes", raw(func(c net.Conn) {
			b := make([]byte, 1<<20)
			_, _ = rand.Read(b)
			b[0] = 'x'
			_, _ = c.Write(b)
		}), `reason=garbage`},
		{"half a greeting", raw(func(c net.Conn) {
			b := good.encode()
			_, _ = c.Write(b[:50])
			_ = c.(*net.TCPConn).CloseWrite()
		}), `reason="no greeting"`},
		{"another version", raw(func(c net.Conn) {
			g := good
			g.version = 99
			b := g.encode()
			_, _ = c.Write(b[:])
		}), `version 99`},
		{"wrong role", raw(func(c net.Conn) {
			g := good
			g.role = roleDialer
			b := g.encode()
			_, _ = c.Write(b[:])
		}), `reason=protocol`},
		{"greeting and random proof", raw(func(c net.Conn) {
			b := good.encode()
			_, _ = c.Write(b[:])
			_, _ = c.Write(make([]byte, proofSize))
		}), `reason="wrong secret"`},
		{"reflected greeting", raw(func(c net.Conn) {
			b := good.encode()
			_, _ = c.Write(b[:])
			var theirs [greetingSize]byte
			_, _ = io.ReadFull(c, theirs[:])
			_, _ = c.Write(theirs[:proofSize])
		}), `reason="wrong secret"`},
	} {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			lines := &logBuffer{}
			id, err := NewUniqueID(WithInterface("lo"), logged(lines), WithWorldSize(4))
			if err != nil {
				t.Fatal(err)
			}
			f, _ := id.decode()
			var wg sync.WaitGroup
			bs := make([]Bootstrap, 4)
			join := func(r int) {
				wg.Go(func() {
					var err error
					if bs[r], err = JoinID(context.Background(), id, r, 4, quiet(), WithTimeout(30*time.Second)); err != nil {
						t.Error(err)
					}
				})
			}
			for r := range 3 {
				join(r)
			}
			waitJoined(t, id, 3)
			in.act(t, id, f.addr.String())
			join(3)
			wg.Wait()
			if !t.Failed() {
				each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })
			}
			closeAll(bs)
			// The intruder may end before the log is written.
			for end := time.Now().Add(30 * time.Second); !strings.Contains(lines.String(), in.log) && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if !strings.Contains(lines.String(), in.log) {
				t.Errorf("the log does not say %s:\n%s", in.log, lines)
			}
		})
	}
}

func waitJoined(t *testing.T, id UniqueID, n int) {
	t.Helper()
	r := liveRoot(id)
	if r == nil {
		t.Fatal("no root")
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		r.mu.Lock()
		have := 0
		for _, m := range r.a.members {
			if m.info != nil {
				have++
			}
		}
		r.mu.Unlock()
		if have == n {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("%d ranks did not join", n)
}

// TestInsiders are ranks with the secret that violate the protocol: the job cannot start without them, so every rank
// must get an error at once.
func TestInsiders(t *testing.T) {
	huge := func(fc *frameConn) {
		_, _ = fc.c.Write(plain.Bytes(&header{kind: frameJoin, length: 1 << 31}))
	}
	for name, f := range map[string]func(fc *frameConn){
		"huge frame": huge,
		"truncated frame": func(fc *frameConn) {
			_, _ = fc.c.Write(appendFrame(nil, fc.out, header{kind: frameJoin}, make([]byte, memberSize))[:40])
			fc.closeWrite()
		},
		"wrong tag": func(fc *frameConn) {
			b := appendFrame(nil, fc.out, header{kind: frameJoin}, make([]byte, memberSize))
			b[len(b)-1] ^= 1
			_, _ = fc.c.Write(b)
		},
		"replayed frame": func(fc *frameConn) {
			b := appendFrame(nil, fc.out, header{kind: frameJoin}, make([]byte, memberSize))
			_, _ = fc.c.Write(append(b, b...))
		},
		"wrong counter": func(fc *frameConn) {
			_, _ = fc.c.Write(appendFrame(nil, fc.out, header{kind: frameJoin, counter: 1}, make([]byte, memberSize)))
		},
		"out of turn": func(fc *frameConn) { _ = fc.write(context.Background(), frameReady, 0, 0, nil) },
		"short join":  func(fc *frameConn) { _ = fc.write(context.Background(), frameJoin, 0, 0, []byte("x")) },
		"hang up":     func(fc *frameConn) { fc.close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testutil.Prompt(t, time.Second, func() time.Duration {
				id, err := NewUniqueID(WithInterface("lo"), quiet())
				if err != nil {
					t.Fatal(err)
				}
				addr, _ := id.decode()
				errs := make(chan error, 2)
				for r := range 2 {
					go func() { errs <- errOf(JoinID(context.Background(), id, r, 3, quiet(), WithTimeout(20*time.Second))) }()
				}
				waitJoined(t, id, 2)
				start := time.Now()
				insider(2, 3, f)(t, id, addr.addr.String())
				for range 2 {
					if err := wantDead(<-errs, 2); err != nil {
						t.Error(err)
					}
				}
				return time.Since(start)
			})
		})
	}
}

// TestOverlayIntruders attack a rank's own listener; only their own connection may fail.
func TestOverlayIntruders(t *testing.T) {
	var tab table
	_, _ = rand.Read(tab.session[:])
	c, err := newConfig([]Option{quiet()})
	if err != nil {
		t.Fatal(err)
	}
	secret := bytes.Repeat([]byte{7}, 32)
	lo := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	d := &dialer{secret: secret}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	os := make([]*overlay, 2)
	for i := range os {
		ls, err := openListeners(c, lo)
		if err != nil {
			t.Fatal(err)
		}
		defer ls.close()
		tab.members = append(tab.members, ls.self)
		os[i] = newOverlay(c, d, ls, i, 2)
		os[i].t = &tab
		os[i].gate = newGate(os[i], &branch{c: c, session: tab.session}, func(error) {})
		os[i].gate.serve()
		defer os[i].abandon()
	}
	done := make(chan error, 1)
	go func() { done <- os[1].connect(ctx) }()
	at := []target{{"unix", os[1].ls.self.unix.address(), false}, {"tcp", os[1].ls.tcp[0].Addr().String(), false}}
	me := greeting{role: roleDialer, world: 2, rank: 0, target: 1, session: tab.session}
	for name, change := range map[string]func(g *greeting, d *dialer){
		"own rank":         func(g *greeting, _ *dialer) { g.rank = 1 },
		"rank range":       func(g *greeting, _ *dialer) { g.rank = 2 },
		"world":            func(g *greeting, _ *dialer) { g.world = 3 },
		"session":          func(g *greeting, _ *dialer) { g.session[0] ^= 1 },
		"target":           func(g *greeting, _ *dialer) { g.target = 0 },
		"secret":           func(_ *greeting, d *dialer) { d.secret = []byte("x") },
		"role of a joiner": func(g *greeting, _ *dialer) { g.role = roleJoiner },
	} {
		for _, where := range at {
			g, bad := me, *d
			change(&g, &bad)
			if fc, _, err := bad.try(ctx, where, g); err == nil {
				fc.close()
				t.Errorf("%s over %s was let in", name, where.network)
			}
		}
	}
	if err := os[0].connect(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if fc, _, err := d.try(ctx, at[0], me); !errors.Is(err, ErrDuplicateRank) {
		if err == nil {
			fc.close()
		}
		t.Errorf("a second connection: %v", err)
	}
}
