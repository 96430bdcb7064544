package goccl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/conformance"
)

// item is one operation of a group on one of its communicators: a collective, or a message from one rank to another.
type item struct {
	comm     int
	message  bool
	coll     algorithm.Collective
	count    int64
	root     int
	src, dst int // ranks of the communicator
}

var groupCollectives = []algorithm.Collective{algorithm.AllReduce, algorithm.AllGather, algorithm.ReduceScatter, algorithm.AllToAll, algorithm.Broadcast,
	algorithm.Reduce, algorithm.Gather, algorithm.Scatter, algorithm.Barrier}

func drawItems(t *rapid.T, sizes []int, seed int) []item {
	count := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 50), rapid.Int64Range(1, 60_000))
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item {
		it := item{comm: rapid.IntRange(0, len(sizes)-1).Draw(t, "comm"), message: rapid.Bool().Draw(t, "message"), count: count.Draw(t, "count")}
		n := sizes[it.comm]
		if it.message {
			it.src, it.dst = rapid.IntRange(0, n-1).Draw(t, "src"), rapid.IntRange(0, n-1).Draw(t, "dst")
		} else {
			it.coll = rapid.SampledFrom(groupCollectives).Draw(t, "collective")
			it.root = rapid.IntRange(0, n-1).Draw(t, "root")
		}
		return it
	}), 1, 10).Draw(t, fmt.Sprint("group ", seed))
}

// value returns element i of the input of rank r of the job to item k.
func value(r, k int, i int64) byte { return byte(r*31 + k*7 + int(i)*3 + 1) }

// work is one rank's part of an item: its request, and the expected contents of recv.
type work struct {
	call goccl.Call
	recv device.Ptr
	want []byte
}

// arrange makes the calls of one rank. world maps the ranks of each communicator to ranks of the job.
func arrange(comms []*goccl.Comm, world [][]int, items []item, arena func(n int64) device.Ptr, stream func() device.Stream) (out []work, err error) {
	for k, it := range items {
		if it.comm < 0 { // this rank is not in it
			continue
		}
		c, members := comms[it.comm], world[it.comm]
		me, n := c.Rank(), int64(c.WorldSize())
		if it.message && me != it.src && me != it.dst {
			continue
		}
		input := func(r int, elements int64) []byte {
			b := make([]byte, elements)
			for i := range b {
				b[i] = value(members[r], k, int64(i))
			}
			return b
		}
		add := func(coll algorithm.Collective, send int64, want []byte, peer int) error {
			req := algorithm.Request{Collective: coll, Count: it.count, Type: datatype.Uint8, Op: datatype.Sum, Root: it.root, Peer: peer, Stream: stream(),
				Send: arena(send), Recv: arena(int64(len(want)))}
			if send > 0 {
				if err := c.Device().CopyIn(req.Send, input(me, send)); err != nil {
					return err
				}
			}
			out = append(out, work{goccl.Call{Comm: c, Request: req}, req.Recv, want})
			return nil
		}
		sum := func(from, count int64) []byte {
			b := make([]byte, count)
			for r := range members {
				for i, v := range input(r, from+count)[from:] {
					b[i] += v
				}
			}
			return b
		}
		gathered := func(part func(r int) []byte) (b []byte) {
			for r := range members {
				b = append(b, part(r)...)
			}
			return b
		}
		if it.message {
			if me == it.src {
				err = add(algorithm.Send, it.count, nil, it.dst)
			}
			if me == it.dst && err == nil {
				err = add(algorithm.Recv, 0, input(it.src, it.count), it.src)
			}
		} else {
			atRoot := func(b []byte) []byte {
				if me == it.root {
					return b
				}
				return nil
			}
			send, want := it.count, []byte(nil)
			switch it.coll {
			case algorithm.AllReduce:
				want = sum(0, it.count)
			case algorithm.Reduce:
				want = atRoot(sum(0, it.count))
			case algorithm.ReduceScatter:
				send, want = it.count*n, sum(int64(me)*it.count, it.count)
			case algorithm.AllGather:
				want = gathered(func(r int) []byte { return input(r, it.count) })
			case algorithm.Gather:
				want = atRoot(gathered(func(r int) []byte { return input(r, it.count) }))
			case algorithm.AllToAll:
				send, want = it.count*n, gathered(func(r int) []byte { return input(r, it.count*n)[int64(me)*it.count:][:it.count] })
			case algorithm.Scatter:
				send, want = it.count*n, input(it.root, it.count*n)[int64(me)*it.count:][:it.count]
			case algorithm.Broadcast:
				want = input(it.root, it.count)
			case algorithm.Barrier:
				send = 0
			}
			err = add(it.coll, send, want, 0)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// shuffle reorders calls differently on each rank: it only keeps the order of the collectives of one communicator, and
// of the messages of one pair.
func shuffle(rng *rand.Rand, all []work) []work {
	lanes := map[string][]work{}
	var names []string
	for _, w := range all {
		r := w.call.Request
		name := fmt.Sprintf("%p", w.call.Comm)
		if r.Collective == algorithm.Send || r.Collective == algorithm.Recv {
			name += fmt.Sprint(r.Collective, r.Peer)
		}
		if lanes[name] == nil {
			names = append(names, name)
		}
		lanes[name] = append(lanes[name], w)
	}
	var out []work
	for len(names) > 0 {
		i := rng.IntN(len(names))
		l := lanes[names[i]]
		out = append(out, l[0])
		if lanes[names[i]] = l[1:]; len(l) == 1 {
			names[i] = names[len(names)-1]
			names = names[:len(names)-1]
		}
	}
	return out
}

const arenaBytes = 8 << 20

// TestGroups submits random groups over three communicators, in a different order on every rank, on streams that
// communicators may share.
func TestGroups(t *testing.T) {
	onKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		for _, check := range []bool{false, true} {
			t.Run(fmt.Sprintf("check=%v", check), func(t *testing.T) { groups(t, n, open, check) })
		}
	})
}

func groups(t *testing.T, n int, open func(r int) (device.Device, error), check bool) {
	all := commsWith(t, n, open, func(_ int, cfg *goccl.Config) { cfg.Check = check })
	// The job, the job backwards, and a part of it.
	backwards := split(t, all, func(int) int { return 0 }, func(r int) int { return -r })
	part := split(t, all, func(r int) int {
		if r == 0 && n > 2 {
			return goccl.NoColor
		}
		return 0
	}, func(r int) int { return r })
	world := [][]int{nil, nil, nil}
	for r := range n {
		world[0] = append(world[0], r)
		world[1] = append([]int{r}, world[1]...)
		if part[r] != nil {
			world[2] = append(world[2], r)
		}
	}
	sizes := []int{n, n, len(world[2])}
	arenas, streams := make([]device.Ptr, n), make([][]device.Stream, n)
	for r := range n {
		mem, err := all[r].Device().Alloc(arenaBytes)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = mem.Close() })
		arenas[r] = mem.Ptr()
		for range 3 {
			s, err := all[r].Device().NewStream()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			streams[r] = append(streams[r], s)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		var rounds [][]item
		for i := range rapid.IntRange(1, 3).Draw(rt, "groups") {
			rounds = append(rounds, drawItems(rt, sizes, i))
		}
		seed := rapid.Uint64().Draw(rt, "order")
		modes := []string{"one stream", "any stream"}
		if all[0].Device().ID().Kind == device.Host { // several ranks on one GPU share its default stream
			modes = append(modes, "in the caller")
		}
		mode := rapid.SampledFrom(modes).Draw(rt, "streams")
		if err := each(n, func(r int) error {
			rng := rand.New(rand.NewPCG(seed, uint64(r)))
			comms := []*goccl.Comm{all[r], backwards[r], part[r]}
			at := int64(0)
			arena := func(n int64) device.Ptr {
				p := arenas[r].Add(at)
				at += (n + 15) &^ 15
				if at > arenaBytes {
					panic("the arena is too small")
				}
				return p
			}
			stream := func() device.Stream {
				switch mode {
				case "one stream":
					return streams[r][0]
				case "any stream":
					return streams[r][rng.IntN(3)]
				}
				return nil
			}
			var done []work
			for _, items := range rounds {
				mine := items
				if part[r] == nil {
					mine = nil
					for _, it := range items {
						if it.comm == 2 {
							it = item{comm: -1}
						}
						mine = append(mine, it)
					}
				}
				w, err := arrange(comms, world, mine, arena, stream)
				if err != nil {
					return err
				}
				w = shuffle(rng, w)
				calls := make([]goccl.Call, len(w))
				for i := range w {
					calls[i] = w[i].call
				}
				if err := goccl.Submit(calls); err != nil {
					return err
				}
				done = append(done, w...)
			}
			ctx, cancel := context.WithTimeout(context.Background(), conformance.Timeout)
			defer cancel()
			for _, s := range streams[r] {
				if err := all[r].Synchronize(ctx, s); err != nil {
					return err
				}
			}
			for _, w := range done {
				got := make([]byte, len(w.want))
				if err := all[r].Device().CopyOut(got, w.recv); err != nil {
					return err
				}
				if string(got) != string(w.want) {
					return fmt.Errorf("rank %d: %v of %d: wrong result", r, w.call.Request.Collective, w.call.Request.Count)
				}
			}
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
	})
}

// One goroutine drives all ranks, in one group, on streams that block.
func TestOneGoroutineManyRanks(t *testing.T) {
	for _, check := range []bool{false, true} {
		comms := commsWith(t, 4, openHost, func(_ int, cfg *goccl.Config) { cfg.Check = check })
		var calls []goccl.Call
		ptr := make([]device.Ptr, len(comms))
		for r, c := range comms {
			ptr[r] = scratch(t, c)
			if err := c.Device().CopyIn(ptr[r], []byte{byte(r + 1)}); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, goccl.Call{Comm: c, Request: algorithm.Request{Collective: algorithm.AllReduce, Send: ptr[r], Recv: ptr[r].Add(64), Count: 1,
				Type: datatype.Int8, Op: datatype.Sum}})
		}
		done := make(chan error, 1)
		go func() { done <- goccl.Submit(calls) }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("deadlock")
		}
		for r, c := range comms {
			var b [1]byte
			if err := c.Device().CopyOut(b[:], ptr[r].Add(64)); err != nil || b[0] != 10 {
				t.Errorf("rank %d has %d, %v", r, b[0], err)
			}
		}
	}
}

// A group with an invalid request has no effect on any communicator.
func TestInvalidGroup(t *testing.T) {
	comms := commsWith(t, 2, openHost, nil)
	p := scratch(t, comms[0])
	good := goccl.Call{Comm: comms[0], Request: algorithm.Request{Collective: algorithm.Send, Send: p, Count: 1, Type: datatype.Int8, Peer: 1}}
	for _, bad := range []goccl.Call{
		{}, {Comm: comms[1], Request: algorithm.Request{Collective: algorithm.Send, Send: p, Count: 1, Type: datatype.Int8, Peer: 2}},
		{Comm: comms[0], Request: algorithm.Request{Collective: algorithm.AllReduce, Count: -1, Type: datatype.Int8}},
		{Comm: comms[1], Request: algorithm.Request{Collective: 99}},
	} {
		if err := goccl.Submit([]goccl.Call{good, bad}); !errors.Is(err, goccl.ErrInvalidArgument) {
			t.Errorf("%+v: %v", bad.Request, err)
		}
	}
	if err := goccl.Submit(nil); err != nil {
		t.Error(err)
	}
	if err := each(2, func(r int) error { return comms[r].Barrier(nil) }); err != nil {
		t.Error(err)
	}
}
