package nvlink

import (
	"testing"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

const large = 4 << 20

// eventually waits, boundedly, for what happens in the background.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// The first operation on a buffer goes through the rings; once the peers have the buffer, operations name it, by slot and offset, and the table of each
// peer says where it is.
func TestRegistry(t *testing.T) {
	t.Setenv("GOCCL_REGISTER", "1")
	const n = 3
	engines := mockEngines(t, n)
	for _, e := range engines {
		must(t, e.Force("all_reduce:two_shot_simple,all_gather:one_shot_simple,reduce_scatter:one_shot_simple,reduce:two_shot_simple,broadcast:two_shot_simple"))
	}
	for r, e := range engines {
		s, mem := newStream(t, e), memory(t, e, 4*large)
		op := datatype.Sum
		run := func(c algorithm.Collective, recv device.Ptr, count int64) *simpleArgs {
			t.Helper()
			calls := launches(noted(t, func() {
				must(t, e.Enqueue(1, []algorithm.Request{{Collective: c, Send: mem, Recv: recv, Count: count, Type: datatype.Float32, Op: op, Root: 1, Stream: s}}))
			}))
			if len(calls) != 1 {
				t.Fatalf("%v", names(calls))
			}
			return argsOf[simpleArgs](t, calls[0])
		}
		if a := run(algorithm.AllReduce, mem.Add(large), large/4); a.direct != 0 || a.maps != e.registry.tablePtr() || a.maps == 0 {
			t.Errorf("rank %d, first use: %+v", r, a)
		}
		for _, peer := range engines {
			peer.registry.start()
		}
		eventually(t, "the buffer is registered", func() bool { return e.registry.word(mem, large, everybody) != 0 })
		region, err := e.dev.Lookup(mem)
		must(t, err)
		at := uint64(mem.Add(large) - region.Base)
		a := run(algorithm.AllReduce, mem.Add(large), large/4)
		if a.direct != 1<<48|at {
			t.Errorf("rank %d: %#x, want slot 0 and offset %#x", r, a.direct, at)
		}
		for p, peer := range engines {
			if p == r {
				continue
			}
			if got := peer.registry.at(r, 0); got != uint64(region.Base) {
				t.Errorf("rank %d has rank %d's buffer at %#x, want %#x", p, r, got, region.Base)
			}
		}
		own, there := 1<<48|uint64(mem-region.Base), 1<<48|uint64(mem.Add(2*large)-region.Base)
		root := func(then, otherwise uint64) uint64 {
			if r == 1 {
				return then
			}
			return otherwise
		}
		for _, c := range []struct {
			name       string
			what       algorithm.Collective
			op         datatype.Op
			recv       device.Ptr
			count      int64
			want, send uint64
		}{
			{"all-reduce", algorithm.AllReduce, datatype.Avg, mem.Add(2 * large), large / 4, there, own},
			{"all-gather", algorithm.AllGather, datatype.Sum, mem.Add(2 * large), large / 4 / n &^ 3, there, 0},
			{"reduce-scatter", algorithm.ReduceScatter, datatype.Sum, mem.Add(2 * large), large / 4 / n &^ 3, 1, own},
			{"reduce", algorithm.Reduce, datatype.Sum, mem.Add(2 * large), large / 4, root(there, 1), own},
			{"broadcast", algorithm.Broadcast, datatype.Sum, mem.Add(2 * large), large / 4, root(1, there), root(own, 1)},
			{"a factor of its own", algorithm.AllReduce, datatype.PreMulSum, mem.Add(2 * large), large / 4, there, 0},
			{"not aligned", algorithm.AllReduce, datatype.Sum, mem.Add(large + 4), large / 4, 0, own},
			{"a size that is no whole vector", algorithm.AllReduce, datatype.Sum, mem.Add(large), large/4 + 1, 0, 0},
			{"small", algorithm.AllReduce, datatype.Sum, mem.Add(large), 1024, 0, 0},
			{"past the end", algorithm.AllReduce, datatype.Sum, mem.Add(large), region.Size / 4, 0, own},
		} {
			op = c.op
			if a := run(c.what, c.recv, c.count); a.direct != c.want || a.directSend != c.send {
				t.Errorf("rank %d, %s: %#x and %#x, want %#x and %#x", r, c.name, a.direct, a.directSend, c.want, c.send)
			}
		}
	}
}

// A buffer that was freed is forgotten, also by the peers, and its slot is used again.
func TestRegistryForgets(t *testing.T) {
	t.Setenv("GOCCL_REGISTER", "1")
	engines := mockEngines(t, 2)
	for _, e := range engines {
		must(t, e.Force("all_reduce:two_shot_simple"))
	}
	e, peer := engines[0], engines[1]
	if peer.registry.tablePtr() == 0 { // from its first large operation on
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

// A message goes straight to its place once its sender has the buffer, whoever else has not.
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

// Unless it is asked for everything goes through the rings.
func TestRegistryOff(t *testing.T) {
	e := mockEngines(t, 2)[0]
	must(t, e.Force("all_reduce:two_shot_simple"))
	if e.registry != nil || e.registry.tablePtr() != 0 || e.registry.word(memory(t, e, large), large, everybody) != 0 {
		t.Error("there is a registry")
	}
}
