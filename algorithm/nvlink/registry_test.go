package nvlink

import (
	"testing"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

const large = streamFrom + 1<<20

// eventually waits, with a bound, for a result of the background goroutines.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// A buffer that all peers have mapped is used by slot and offset; each peer's table holds its address.
func TestRegistry(t *testing.T) {
	t.Setenv("GOCCL_REGISTER", "1")
	engines := mockEngines(t, 3)
	for r, e := range engines {
		mem := memory(t, e, 4*large)
		if e.registry.word(mem, large, everybody) != 0 {
			t.Errorf("rank %d: named before anybody has it", r)
		}
		for _, peer := range engines {
			peer.registry.start()
		}
		eventually(t, "the buffer is registered", func() bool { return e.registry.word(mem, large, everybody) != 0 })
		region, err := e.dev.Lookup(mem)
		must(t, err)
		at := func(p device.Ptr) uint64 { return 1<<48 | uint64(p-region.Base) }
		for p, peer := range engines {
			if p == r {
				continue
			}
			if got := peer.registry.at(r, 0); got != uint64(region.Base) {
				t.Errorf("rank %d has rank %d's buffer at %#x, want %#x", p, r, got, region.Base)
			}
		}
		for _, c := range []struct {
			name  string
			p     device.Ptr
			bytes int64
			want  uint64
		}{
			{"the beginning", mem, large, at(mem)},
			{"inside", mem.Add(large), large, at(mem.Add(large))},
			{"small", mem, registerFrom - 1, 0},
			{"past the end", mem.Add(large), region.Size, 0},
		} {
			if got := e.registry.word(c.p, c.bytes, everybody); got != c.want {
				t.Errorf("rank %d, %s: %#x, want %#x", r, c.name, got, c.want)
			}
		}
	}
}

// A freed buffer is retired on all ranks, and its slot is reused.
func TestRegistryForgets(t *testing.T) {
	t.Setenv("GOCCL_REGISTER", "1")
	engines := mockEngines(t, 2)
	e, peer := engines[0], engines[1]
	if peer.registry.tablePtr() == 0 { // starts with its first large operation
		t.Fatal("the peer has no table")
	}
	first, err := e.dev.AllocLegacy(large)
	must(t, err)
	second := memory(t, e, large)
	for _, p := range []device.Ptr{first.Ptr(), second} {
		eventually(t, "both are registered", func() bool { return e.registry.word(p, large, everybody) != 0 })
	}
	if a, b := e.registry.word(first.Ptr(), large, everybody)>>48, e.registry.word(second, large, everybody)>>48; a != 1 || b != 2 {
		t.Errorf("slots %d and %d, want the first two", a-1, b-1)
	}
	must(t, first.Close())
	eventually(t, "the peer has forgotten it", func() bool { return peer.registry.at(0, 0) == 0 })
	third := memory(t, e, large)
	eventually(t, "the slot is used again", func() bool { return e.registry.word(third, large, everybody)>>48 == 1 })
	if e.registry.word(second, large, everybody)>>48 != 2 {
		t.Error("the other buffer is not there any more")
	}
}

// A message goes straight to its destination once its sender has mapped the buffer, even if other peers have not.
func TestRegistryMessages(t *testing.T) {
	t.Setenv("GOCCL_REGISTER", "1")
	engines := mockEngines(t, 3)
	e, sender := engines[0], engines[1]
	s, mem := newStream(t, e), memory(t, e, 4*large)
	sender.registry.start()
	run := func(recv device.Ptr, bytes int64) *streamArgs {
		t.Helper()
		calls := launches(noted(t, func() {
			must(t, e.Enqueue(1, []algorithm.Request{
				{Collective: algorithm.Send, Send: mem, Count: bytes, Type: datatype.Int8, Peer: 1, Stream: s},
				{Collective: algorithm.Recv, Recv: recv, Count: bytes, Type: datatype.Int8, Peer: 1, Stream: s},
			}))
		}))
		if len(calls) != 1 || calls[0].Kernel != "point_to_point_stream" {
			t.Fatalf("%v", names(calls))
		}
		return argsOf[streamArgs](t, calls[0])
	}
	direct := func(a *streamArgs, send uint8) uint64 {
		for _, l := range a.lane[:a.lanes] {
			if l.send == send {
				return a.direct[l.first]
			}
		}
		return 1
	}
	if a := run(mem.Add(large), large); direct(a, 0) != 0 || a.maps != e.registry.tablePtr() {
		t.Errorf("first use: %#x, %#x", direct(a, 0), a.maps)
	}
	eventually(t, "the sender has the buffer", func() bool { return e.registry.word(mem, large, 1<<1) != 0 })
	region, err := e.dev.Lookup(mem)
	must(t, err)
	want := 1<<48 | uint64(mem.Add(large)-region.Base)
	if a := run(mem.Add(large), large); direct(a, 0) != want || direct(a, 1) != 0 {
		t.Errorf("the receive has %#x, want %#x; the send %#x, want nothing", direct(a, 0), want, direct(a, 1))
	}
	for _, bytes := range []int64{large - 8, large - 1} {
		if a := run(mem.Add(large), bytes); direct(a, 0) != 0 {
			t.Errorf("%d bytes: %#x", bytes, direct(a, 0))
		}
	}
	if a := run(mem.Add(large+8), large); direct(a, 0) != 0 {
		t.Errorf("not aligned: %#x", direct(a, 0))
	}
	if e.registry.word(mem, large, everybody) != 0 {
		t.Error("rank 2 cannot have it yet")
	}
}

// Unless it is enabled, everything goes through the rings.
func TestRegistryOff(t *testing.T) {
	e := mockEngines(t, 2)[0]
	if e.registry != nil || e.registry.tablePtr() != 0 || e.registry.word(memory(t, e, large), large, everybody) != 0 {
		t.Error("there is a registry")
	}
}
