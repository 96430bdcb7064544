package tcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/goccl/goccl/transport"
)

// The bytes that the dialler of TestWhatARelayDoesIsNoticed sends: its part of the handshake, then five frames.
const (
	greetingOut, greetingIn = helloSize + 32, replySize + sealedHeader
	wordFrame               = sealedHeader
	writeFrame              = sealedHeader + 64 + 16
)

// relay is a man in the middle between a dialler and the listener at to. It passes on both halves of the handshake. out
// gets the dialler's later data, frame by frame, and returns the data for the listener; in does the same, once, for the
// listener's first frame.
type relay struct {
	to      netip.AddrPort
	out, in func(frames [][]byte) [][]byte
	heard   []byte // all data of the dialler
}

func (r *relay) run(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		d, err := l.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", r.to.String())
		if err != nil {
			_ = d.Close()
			return
		}
		defer func() { _, _ = d.Close(), s.Close() }()
		go func() {
			defer func() { _, _ = d.Close(), s.Close() }()
			_, _ = io.CopyN(d, s, greetingIn)
			if r.in != nil {
				ack := make([]byte, wordFrame)
				_, _ = io.ReadFull(s, ack)
				_, _ = d.Write(bytes.Join(r.in([][]byte{ack}), nil))
			}
			_, _ = io.Copy(d, s)
		}()
		hello := make([]byte, greetingOut)
		_, _ = io.ReadFull(d, hello[:helloSize])
		_, _ = s.Write(hello[:helloSize])
		_, _ = io.ReadFull(d, hello[helloSize:])
		_, _ = s.Write(hello[helloSize:])
		frames := [][]byte{make([]byte, writeFrame), make([]byte, wordFrame), make([]byte, wordFrame),
			make([]byte, writeFrame), make([]byte, wordFrame)}
		for _, f := range frames {
			if _, err := io.ReadFull(d, f); err != nil {
				return
			}
		}
		r.heard = append(hello, bytes.Join(frames, nil)...)
		if r.out == nil {
			_, _ = s.Write(bytes.Join(frames, nil))
			_, _ = io.Copy(s, d)
			return
		}
		_, _ = s.Write(bytes.Join(r.out(frames), nil))
		_ = s.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, d)
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// victim is a Node with a region, and a check of the memory: it must be as after the first k of the operations of send.
func victim(t *testing.T) (n *Node, dst transport.Remote, mem []byte, legal func(upTo int) bool) {
	n = node(t, Options{})
	p, mem := memory(t, 4096)
	dst = transport.Remote{Region: n.Register(NewHostMemory(p, 4096, false))}
	return n, dst, mem, func(upTo int) bool {
		want := make([]byte, 4096)
		for k := 0; ; k++ {
			if bytes.Equal(mem, want) {
				return true
			}
			switch k {
			case upTo:
				return false
			case 0:
				copy(want, bytes.Repeat([]byte{0x11}, 64))
			case 1, 2:
				want[128]++
			case 3:
				copy(want[64:], bytes.Repeat([]byte{0x22}, 64))
			}
		}
	}
}

// send makes four operations, each of which changes the memory, and a flush.
func send(t *testing.T, l *Link, dst transport.Remote) error {
	src, b := memory(t, 128)
	copy(b, append(bytes.Repeat([]byte{0x11}, 64), bytes.Repeat([]byte{0x22}, 64)...))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return errors.Join(l.Write(dst, src, 64), l.Add(dst.Add(128), 1), l.Add(dst.Add(128), 1),
		l.Write(dst.Add(64), src.Add(64), 64), l.Flush(ctx))
}

func flip(f []byte, at int) []byte {
	f = bytes.Clone(f)
	f[at] ^= 1
	return f
}

// Whatever a man in the middle does to a connection: the memory is as after a prefix of the operations, in order, and
// the flush fails.
func TestWhatARelayDoesIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		out, in func(f [][]byte) [][]byte
		applied int // operations that may be visible
	}{
		"changes a payload": {out: func(f [][]byte) [][]byte {
			return [][]byte{flip(f[0], sealedHeader), f[1], f[2], f[3], f[4]}
		}, applied: 0},
		"changes an offset": {out: func(f [][]byte) [][]byte { return [][]byte{f[0], flip(f[1], 17), f[2], f[3], f[4]} },
			applied: 1},
		"changes a tag": {out: func(f [][]byte) [][]byte {
			return [][]byte{f[0], f[1], f[2], flip(f[3], writeFrame-1), f[4]}
		}, applied: 3},
		"repeats a frame": {out: func(f [][]byte) [][]byte {
			return [][]byte{f[0], f[1], f[1], f[1], f[2], f[3], f[4]}
		}, applied: 2},
		"swaps frames": {out: func(f [][]byte) [][]byte { return [][]byte{f[3], f[1], f[2], f[0], f[4]} },
			applied: 0},
		"leaves out a frame":   {out: func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[3], f[4]} }, applied: 2},
		"leaves out the flush": {out: func(f [][]byte) [][]byte { return f[:4] }, applied: 4},
		"cuts a payload":       {out: func(f [][]byte) [][]byte { return [][]byte{f[0][:writeFrame-5]} }, applied: 0},
		"cuts between frames":  {out: func(f [][]byte) [][]byte { return f[:2] }, applied: 2},
		"forges the answer":    {in: func(f [][]byte) [][]byte { return [][]byte{flip(f[0], 24)} }, applied: 4},
		"repeats the answer":   {in: func(f [][]byte) [][]byte { return [][]byte{f[0], f[0]} }, applied: 4},
		"answers with the flush": {out: func(f [][]byte) [][]byte { return [][]byte{f[0], f[1], f[2], f[3], f[4], f[4]} },
			applied: 4},
	} {
		t.Run(name, func(t *testing.T) {
			lost, broken := make(chan error, 1), make(chan error, 1)
			b, dst, mem, legal := victim(t)
			b.opt.Lost = func(_, _ uint64, err error) { lost <- err }
			r := &relay{to: b.Addr(), out: c.out, in: c.in}
			a := node(t, Options{})
			l, err := a.Dial(t.Context(), r.run(t), b.NewEndpoint(), 77, LinkOptions{Broken: func(err error) { broken <- err }})
			if err != nil {
				t.Fatal(err)
			}
			err = send(t, l, dst)
			for who, ch := range map[string]chan error{"the listener": lost, "the dialler": broken} {
				if c.in != nil && who == "the listener" {
					continue // all operations are applied
				}
				select {
				case err := <-ch:
					if !errors.Is(err, transport.ErrPeerGone) {
						t.Errorf("%s: %v", who, err)
					}
				case <-time.After(time.Minute):
					t.Fatalf("%s has not noticed", who)
				}
			}
			if err == nil && c.applied < 4 {
				t.Error("the flush has succeeded")
			}
			if !legal(c.applied) {
				t.Errorf("the memory has become %x", mem[:136])
			}
		})
	}
}

// A replayed connection has no effect.
func TestAReplayedConnectionIsRefused(t *testing.T) {
	b, dst, mem, _ := victim(t)
	r := &relay{to: b.Addr()}
	a := node(t, Options{})
	l, err := a.Dial(t.Context(), r.run(t), b.NewEndpoint(), 77, LinkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := send(t, l, dst); err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(mem)
	c, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = c.Write(r.heard)
	if n, err := io.Copy(io.Discard, c); n > replySize || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the listener says %d bytes: %v", n, err)
	}
	if !bytes.Equal(mem, before) || mem[128] != 2 {
		t.Errorf("the memory has become %x", mem[:136])
	}
	if err := l.Flush(t.Context()); err != nil { // and the recorded connection still works
		t.Error(err)
	}
}

// More silent connections than the Node accepts, renewed as they are dropped, do not keep a peer from connecting.
func TestAFloodKeepsNobodyOut(t *testing.T) {
	a, b := node(t, Options{}), node(t, Options{Timeout: 30 * time.Second})
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
	for range 5 {
		l := dial(t, a, b, LinkOptions{})
		if err := errors.Join(l.Flush(t.Context()), l.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
