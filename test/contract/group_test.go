package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

func drawItems(t *rapid.T, sizes []int, seed int) []commtest.Item {
	count := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 50), rapid.Int64Range(1, 60_000))
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) commtest.Item {
		it := commtest.Item{Comm: rapid.IntRange(0, len(sizes)-1).Draw(t, "comm"), Message: rapid.Bool().Draw(t, "message"),
			Count: count.Draw(t, "count")}
		n := sizes[it.Comm]
		if it.Message {
			it.Src, it.Dst = rapid.IntRange(0, n-1).Draw(t, "src"), rapid.IntRange(0, n-1).Draw(t, "dst")
		} else {
			it.Coll = rapid.SampledFrom(commtest.Collectives).Draw(t, "collective")
			it.Root = rapid.IntRange(0, n-1).Draw(t, "root")
		}
		return it
	}), 1, 10).Draw(t, fmt.Sprint("group ", seed))
}

// shuffle reorders calls differently on each rank: it only keeps the order of the collectives of one communicator, and
// of the messages of one pair.
func shuffle(rng *rand.Rand, all []commtest.Work) []commtest.Work {
	lanes := map[string][]commtest.Work{}
	var names []string
	for _, w := range all {
		r := w.Call.Request
		name := fmt.Sprintf("%p", w.Call.Comm)
		if r.Collective == collective.Send || r.Collective == collective.Recv {
			name += fmt.Sprint(r.Collective, r.Peer)
		}
		if lanes[name] == nil {
			names = append(names, name)
		}
		lanes[name] = append(lanes[name], w)
	}
	var out []commtest.Work
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

// TestGroups submits random groups over three communicators, in a different order on every rank, on streams that
// communicators may share.
func TestGroups(t *testing.T) {
	commtest.OnKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		for _, check := range []bool{false, true} {
			t.Run(fmt.Sprintf("check=%v", check), func(t *testing.T) { groups(t, n, open, check) })
		}
	})
}

func groups(t *testing.T, n int, open func(r int) (device.Device, error), check bool) {
	all := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) { cfg.Check = check })
	// The job, the job backwards, and a part of it.
	backwards := commtest.Split(t, all, func(int) int { return 0 }, func(r int) int { return -r })
	part := commtest.Split(t, all, func(r int) int {
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
		mem, err := all[r].Device().Alloc(commtest.ArenaBytes)
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
		var rounds [][]commtest.Item
		for i := range rapid.IntRange(1, 3).Draw(rt, "groups") {
			rounds = append(rounds, drawItems(rt, sizes, i))
		}
		seed := rapid.Uint64().Draw(rt, "order")
		modes := []string{"one stream", "any stream"}
		if all[0].Device().ID().Kind == device.Host { // several ranks on one GPU share its default stream
			modes = append(modes, "in the caller")
		}
		mode := rapid.SampledFrom(modes).Draw(rt, "streams")
		if err := commtest.Each(n, func(r int) error {
			rng := rand.New(rand.NewPCG(seed, uint64(r)))
			comms := []*goccl.Comm{all[r], backwards[r], part[r]}
			at := int64(0)
			arena := func(n int64) device.Ptr {
				p := arenas[r].Add(at)
				at += (n + 15) &^ 15
				if at > commtest.ArenaBytes {
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
			var done []commtest.Work
			for _, items := range rounds {
				mine := items
				if part[r] == nil {
					mine = nil
					for _, it := range items {
						if it.Comm == 2 {
							it = commtest.Item{Comm: -1}
						}
						mine = append(mine, it)
					}
				}
				w, err := commtest.Arrange(comms, world, mine, arena, stream)
				if err != nil {
					return err
				}
				w = shuffle(rng, w)
				calls := make([]goccl.Call, len(w))
				for i := range w {
					calls[i] = w[i].Call
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
				got := make([]byte, len(w.Want))
				if err := all[r].Device().CopyOut(got, w.Recv); err != nil {
					return err
				}
				if string(got) != string(w.Want) {
					return fmt.Errorf("rank %d: %v of %d: wrong result", r, w.Call.Request.Collective, w.Call.Request.Count)
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
		comms := commtest.New(t, 4, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.Check = check })
		var calls []goccl.Call
		ptr := make([]device.Ptr, len(comms))
		for r, c := range comms {
			ptr[r] = commtest.Scratch(t, c)
			if err := c.Device().CopyIn(ptr[r], []byte{byte(r + 1)}); err != nil {
				t.Fatal(err)
			}
			calls = append(calls,
				goccl.Call{Comm: c, Request: collective.Request{Collective: collective.AllReduce, Send: ptr[r],
					Recv:  ptr[r].Add(64),
					Count: 1,
					Type:  datatype.Int8, Op: datatype.Sum}})
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
	comms := commtest.New(t, 2, commtest.Host, nil)
	p := commtest.Scratch(t, comms[0])
	good := goccl.Call{Comm: comms[0], Request: collective.Request{Collective: collective.Send, Send: p, Count: 1,
		Type: datatype.Int8, Peer: 1}}
	for _, bad := range []goccl.Call{
		{}, {Comm: comms[1], Request: collective.Request{Collective: collective.Send, Send: p, Count: 1, Type: datatype.Int8,
			Peer: 2}},
		{Comm: comms[0], Request: collective.Request{Collective: collective.AllReduce, Count: -1, Type: datatype.Int8}},
		{Comm: comms[1], Request: collective.Request{Collective: 99}},
	} {
		if err := goccl.Submit([]goccl.Call{good, bad}); !errors.Is(err, goccl.ErrInvalidArgument) {
			t.Errorf("%+v: %v", bad.Request, err)
		}
	}
	if err := goccl.Submit(nil); err != nil {
		t.Error(err)
	}
	if err := commtest.Each(2, func(r int) error { return comms[r].Barrier(nil) }); err != nil {
		t.Error(err)
	}
}
