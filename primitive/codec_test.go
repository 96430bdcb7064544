package primitive

import (
	"errors"
	"os"
	"testing"

	"github.com/goccl/goccl/test/mutate"
	"github.com/goccl/goccl/transport/wire"
)

func openFiles(t testing.TB) int {
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func samples(t testing.TB, c *Context) (endpoints, memories, stubs [][]byte) {
	for _, tr := range transports() {
		x, _ := pair(t, tr, c, c)
		m, _ := x.memory(t, 5000, Flags(transports()...))
		endpoints = append(endpoints, x.ep.Serialize())
		memories = append(memories, must[[]byte](t)(m.Serialize()))
		stubs = append(stubs, must[[]byte](t)(x.stub.Serialize()))
	}
	return endpoints, memories, stubs
}

func TestEndpointRoundTrip(t *testing.T) {
	c := newContext(t)
	endpoints, _, _ := samples(t, c)
	for _, data := range endpoints {
		e := must[*Endpoint](t)(DeserializeEndpoint(data))
		if again := e.Serialize(); string(again) != string(data) {
			t.Errorf("%v changes on the way", e)
		}
		if e.Local() {
			t.Error("a received endpoint is local")
		}
	}
}

// The bytes belong to the caller again when an object is decoded, before its first use.
func TestObjectsOutliveTheirBytes(t *testing.T) {
	for _, tr := range transports() {
		x, y := pair(t, tr, newContext(t), newContext(t))
		m, to := y.memory(t, 64, Flags(tr))
		src, from := x.memory(t, 64, Flags(tr))
		fill(from, 1)
		data := must[[]byte](t)(m.Serialize())
		dst := must[*RegisteredMemory](t)(x.ctx.DeserializeMemory(data))
		clear(data)
		data = must[[]byte](t)(y.stub.Serialize())
		stub := must[*SemaphoreStub](t)(x.ctx.DeserializeSemaphoreStub(data))
		clear(data)
		err := errors.Join(x.conn.Write(dst, 0, src, 0, 64), x.conn.AtomicAdd(stub.mem, 0, 1), x.conn.Flush(0))
		if err != nil {
			t.Fatal(tr, err)
		}
		if string(to) != string(from) {
			t.Fatalf("%v: %v", tr, to)
		}
	}
}

func TestConnectRefusesWhatCannotBe(t *testing.T) {
	c := newContext(t)
	dev := open(t, 0)
	ip := must[*Endpoint](t)(c.CreateEndpoint(EndpointConfig{Transport: IPC, Device: dev}))
	eth := must[*Endpoint](t)(c.CreateEndpoint(EndpointConfig{Transport: Ethernet, Device: dev}))
	for name, f := range map[string]func() error{
		"different transports": func() error { _, err := c.Connect(ip, eth); return err },
		"nil":                  func() error { _, err := c.Connect(ip, nil); return err },
		"a remote as local": func() error {
			r := must[*Endpoint](t)(DeserializeEndpoint(ip.Serialize()))
			_, err := c.Connect(r, ip)
			return err
		},
		"another host": func() error {
			r := must[*Endpoint](t)(DeserializeEndpoint(ip.Serialize()))
			r.host[0] ^= 1
			_, err := c.Connect(ip, r)
			return err
		},
		"no device": func() error { _, err := c.CreateEndpoint(EndpointConfig{Transport: IPC}); return err },
	} {
		if err := f(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.CreateEndpoint(EndpointConfig{Transport: IB2, Device: dev}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("InfiniBand: %v", err)
	}
}

// Records with a correct checksum and invalid fields.
func FuzzDeserialize(f *testing.F) {
	c := newContext(f)
	endpoints, memories, stubs := samples(f, c)
	for _, s := range append(append(endpoints, memories...), stubs...) {
		f.Add(s[4], s[12:len(s)-4])
	}
	mutate.Fuzz(f, func(t *testing.T, kind uint8, body []byte) {
		if len(body) > wire.MaxBody {
			return
		}
		var w wire.Writer
		w.Raw(body)
		data := w.Seal(kind, 1)
		if e, err := DeserializeEndpoint(data); err == nil {
			if !e.transport.Valid() || string(e.Serialize()) != string(data) {
				t.Fatalf("%+v", e)
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
		if m, err := c.DeserializeMemory(data); err == nil {
			o := m.origin
			if m.size <= 0 || o.offset < 0 || o.share != nil && m.size+o.offset > o.share.Handle.Size-o.share.Handle.Offset {
				t.Fatalf("%+v", m)
			}
			_ = m.Close()
		}
		if s, err := c.DeserializeSemaphoreStub(data); err == nil {
			_ = s.Close()
		}
	})
}

func TestConnectionWritesAddsAndFlushes(t *testing.T) {
	for _, tr := range transports() {
		t.Run(tr.String(), func(t *testing.T) {
			a, b := newContext(t), newContext(t)
			x, y := pair(t, tr, a, b)
			src, in := x.memory(t, 3<<20, Flags(transports()...))
			dst, out := y.memory(t, 3<<20, Flags(transports()...))
			fill(in, 9)
			to := x.receive(t, dst)
			var mine uint64
			for _, err := range []error{
				x.conn.Write(to, 16, src, 5, 3<<20-16), x.conn.AtomicAdd(to, 0, 40), x.conn.AtomicAdd(to, 0, 2),
				x.conn.UpdateAndSync(to, 8, &mine, 7), x.conn.Flush(0),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if string(out[16:]) != string(in[5:5+3<<20-16]) || out[0] != 42 || out[8] != 7 || mine != 7 {
				t.Fatal("wrong bytes")
			}
			for name, err := range map[string]error{
				"past the end":   x.conn.Write(to, 3<<20-8, src, 0, 9),
				"source too far": x.conn.Write(to, 0, src, 3<<20, 1),
				"overflow":       x.conn.Write(to, 1<<64-1, src, 0, 2),
				"unaligned":      x.conn.AtomicAdd(to, 4, 1),
				"nil":            x.conn.Write(nil, 0, src, 0, 1),
			} {
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("%s: %v", name, err)
				}
			}
			host := must[*Host2HostSemaphore](t)(NewHost2HostSemaphore(x.sema))
			peer := must[*Host2HostSemaphore](t)(NewHost2HostSemaphore(y.sema))
			for range 100 {
				if err := errors.Join(host.Signal(), peer.Wait(t.Context()), peer.Signal(), host.Wait(t.Context())); err != nil {
					t.Fatal(err)
				}
			}
			if host.Poll() {
				t.Error("a signal is left over")
			}
			_ = x.conn.Close()
			if err := x.conn.Write(to, 0, src, 0, 1); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}
