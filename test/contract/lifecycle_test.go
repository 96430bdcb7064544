package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/testutil"
)

func TestSplit(t *testing.T) {
	commtest.OnKinds(t, 5, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		comms := commtest.New(t, n, open, nil)
		// Colors by parity, ranks in reverse; the last rank in none.
		subs := commtest.Split(t, comms, func(r int) int {
			if r == n-1 && n > 2 {
				return goccl.NoColor
			}
			return r % 2
		}, func(r int) int { return -r })
		groups := make([][]*goccl.Comm, 2)
		for r := n - 1; r >= 0; r-- {
			c := subs[r]
			if r == n-1 && n > 2 {
				if c != nil {
					t.Errorf("a rank with NoColor got a communicator")
				}
				continue
			}
			if c.Rank() != len(groups[r%2]) {
				t.Errorf("rank %d is %d of color %d, want %d", r, c.Rank(), r%2, len(groups[r%2]))
			}
			groups[r%2] = append(groups[r%2], c)
		}
		// Concurrently: shared resources must not mix.
		if err := commtest.Each(3, func(i int) error {
			cs := append(groups[:2:2], comms)[i]
			for k := range 20 {
				c := commtest.SomeCase
				c.Seed, c.Count = uint64(k*3+i), int64(1000*i+k)
				if err := conformance.Run(cs, c); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		// Twice the same colors, and equal keys: the old order.
		again := commtest.Split(t, comms, func(int) int { return 7 }, func(int) int { return 0 })
		for r, c := range again {
			if c.Rank() != r || c.WorldSize() != n {
				t.Errorf("rank %d of the copy is %d of %d", r, c.Rank(), c.WorldSize())
			}
		}
		deeper := commtest.Split(t, again, func(r int) int { return 0 }, func(r int) int { return r })
		_ = comms[0].Close() // the parents' end does not matter
		if err := conformance.Run(deeper, commtest.SomeCase); err != nil {
			t.Error(err)
		}
	})
	c := commtest.New(t, 1, commtest.Host, nil)[0]
	if _, err := c.Split(context.Background(), -2, 0); !errors.Is(err, goccl.ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestShrink(t *testing.T) {
	commtest.OnKinds(t, 4, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		if n < 2 {
			t.Skip("one rank cannot be shrunk")
		}
		for _, abort := range []bool{false, true} {
			comms := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 3 * time.Second })
			small := make([]*goccl.Comm, n-1)
			if err := commtest.Each(n-1, func(r int) (err error) {
				small[r], err = comms[r].Shrink(context.Background(), []int{n - 1, n - 1}, abort)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if err := conformance.Run(small, commtest.SomeCase); err != nil {
				t.Error(err)
			}
			for _, c := range small {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			err := conformance.Run(comms, commtest.SomeCase)
			if abort && !errors.Is(err, goccl.ErrAborted) || !abort && err != nil {
				t.Errorf("the parent after Shrink(abort %v): %v", abort, err)
			}
		}
		c := commtest.New(t, n, open, nil)[0]
		for _, exclude := range [][]int{nil, {0}, {n}, {-1}} {
			if _, err := c.Shrink(context.Background(), exclude, false); !errors.Is(err, goccl.ErrInvalidArgument) {
				t.Errorf("exclude %v: %v", exclude, err)
			}
		}
	})
}

// Abort unblocks a blocked rank, in a stream or in the call, at once, and its peers get the error.
func TestAbortWhileBlocked(t *testing.T) {
	commtest.OnKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		for _, synchronous := range []bool{false, true} {
			testutil.Prompt(t, 100*time.Millisecond*commtest.Slowness, func() time.Duration {
				comms := commtest.New(t, n, open, nil)
				if comms[0].Device().ID().Kind == device.CUDA && synchronous {
					return 0
				}
				return abortWhileBlocked(t, comms, synchronous)
			})
		}
	})
}

// abortWhileBlocked returns how long the abort took: the call of Abort counts twice, a peer's end a tenth.
func abortWhileBlocked(t *testing.T, comms []*goccl.Comm, synchronous bool) time.Duration {
	reason := errors.New("somebody pulled the plug")
	type end struct {
		err error
		at  time.Time
	}
	block := func(c *goccl.Comm) chan end {
		out := make(chan end, 1)
		go func() {
			mem, err := c.Device().Alloc(4096)
			if err != nil {
				t.Error(err)
			}
			var s device.Stream
			if !synchronous {
				if s, err = c.Device().NewStream(); err != nil {
					t.Error(err)
				}
				defer func() { _ = s.Close() }()
			}
			err = c.AllReduce(mem.Ptr(), mem.Ptr(), 100, datatype.Int32, datatype.Sum, s)
			if err == nil {
				err = c.Synchronize(context.Background(), s)
			}
			out <- end{err, time.Now()}
			_ = mem.Close()
		}()
		return out
	}
	own := block(comms[0])
	var peer chan end
	if len(comms) > 2 {
		peer = block(comms[1])
	}
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	comms[0].Abort(reason)
	took := 2 * time.Since(start)
	e := <-own
	took = max(took, e.at.Sub(start))
	if !errors.Is(e.err, reason) {
		t.Error(e.err)
	}
	if !errors.Is(comms[0].AsyncError(), reason) {
		t.Errorf("AsyncError is %v", comms[0].AsyncError())
	}
	if peer == nil {
		return took
	}
	e = <-peer
	took = max(took, e.at.Sub(start)/10)
	var ge *goccl.Error
	if comms[0].Device().ID().Kind == device.Host {
		if err := commtest.Blames(e.err, goccl.ErrAborted, "all_reduce", 0); err != nil {
			t.Error(err)
		}
	} else if !errors.As(e.err, &ge) || !errors.Is(e.err, goccl.ErrAborted) || ge.Peer != 0 {
		t.Errorf("the peer got %v", e.err)
	}
	return took
}

func TestAbortEndsEverything(t *testing.T) {
	commtest.NoLeak(t)
	waits := map[string]func(c *goccl.Comm) error{
		"checked": func(c *goccl.Comm) error { return c.Barrier(nil) },
		"split":   func(c *goccl.Comm) error { _, err := c.Split(context.Background(), 0, 0); return err },
	}
	for name, wait := range waits {
		testutil.Prompt(t, 100*time.Millisecond*commtest.Slowness, func() time.Duration {
			comms := commtest.New(t, 2, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.Check = name == "checked" })
			done := make(chan struct{})
			go func() {
				if err := wait(comms[0]); !errors.Is(err, goccl.ErrAborted) {
					t.Errorf("%s: %v", name, err)
				}
				close(done)
			}()
			time.Sleep(20 * time.Millisecond)
			start := time.Now()
			comms[0].Abort(nil)
			<-done
			took := time.Since(start)
			if err := wait(comms[0]); !errors.Is(err, goccl.ErrAborted) {
				t.Errorf("%s after Abort: %v", name, err)
			}
			return took
		})
	}
}

// Close ends enqueued work, peers get the error, and calls after Close are refused.
func TestClose(t *testing.T) {
	commtest.OnKinds(t, 2, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		comms := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = time.Hour })
		p := commtest.Scratch(t, comms[0])
		s, err := comms[0].Device().NewStream()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		for range 50 {
			if err := comms[0].AllReduce(p, p, 100, datatype.Int32, datatype.Sum, s); err != nil {
				t.Fatal(err)
			}
		}
		if err := commtest.Each(3, func(int) error { return comms[0].Close() }); err != nil { // also at the same time
			t.Error(err)
		}
		if err := s.Synchronize(context.Background()); comms[0].Device().ID().Kind == device.Host &&
			!errors.Is(err, goccl.ErrAborted) {
			t.Errorf("the work that was enqueued: %v", err)
		}
		if comms[0].Device().ID().Kind == device.Host {
			q := commtest.Scratch(t, comms[1])
			if err := comms[1].AllReduce(q, q, 100, datatype.Int8, datatype.Sum, nil); !errors.Is(err, goccl.ErrAborted) &&
				!errors.Is(err, goccl.ErrMismatch) {
				t.Errorf("the peer: %v", err)
			}
		}
		ctx := context.Background()
		_, split := comms[0].Split(ctx, 0, 0)
		_, shrink := comms[0].Shrink(ctx, []int{1}, true)
		for name, err := range map[string]error{
			"AllReduce": comms[0].AllReduce(p, p, 1, datatype.Int8, datatype.Sum, nil), "Barrier": comms[0].Barrier(nil),
			"Finalize": comms[0].Finalize(ctx),
			"Submit": goccl.Submit([]goccl.Call{
				{Comm: comms[0], Request: collective.Request{Collective: collective.Barrier}}}),
			"Split": split, "Shrink": shrink,
		} {
			var ge *goccl.Error
			if !errors.Is(err, goccl.ErrClosed) || !errors.As(err, &ge) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		comms[0].Abort(nil)
		if comms[0].AsyncError() == nil {
			t.Error("AsyncError after Close is nil")
		}
	})
}

// Closing in the wrong order causes an error at worst.
func TestCloseInAnyOrder(t *testing.T) {
	commtest.NoLeak(t)
	for order := range 6 {
		boots := bootstrap.NewLocalGroup(2)
		comms, devs := make([]*goccl.Comm, 2), make([]device.Device, 2)
		streams := make([]device.Stream, 2)
		if err := commtest.Each(2, func(r int) (err error) {
			if devs[r], err = commtest.Host(r); err != nil {
				return err
			}
			if streams[r], err = devs[r].NewStream(); err != nil {
				return err
			}
			comms[r], err = goccl.NewComm(context.Background(), goccl.Config{Bootstrap: boots[r], Device: devs[r]})
			if err == nil {
				err = comms[r].Barrier(streams[r])
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := comms[0].Barrier(streams[0]); err != nil { // never joined
			t.Error(err)
		}
		for r := range 2 {
			steps := []func() error{comms[r].Close, boots[r].Close, devs[r].Close}
			for _, i := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}[order] {
				done := make(chan error, 1)
				go func() { done <- steps[i]() }()
				select {
				case err := <-done:
					if err != nil {
						t.Errorf("order %d, step %d: %v", order, i, err)
					}
				case <-time.After(30 * time.Second):
					t.Fatalf("order %d, step %d hangs", order, i)
				}
			}
		}
	}
}

// A context that has ended is an error, also where there is nobody to wait for.
func TestNewCommAfterTheEnd(t *testing.T) {
	dev, err := commtest.Host(0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dev.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = goccl.NewComm(ctx, goccl.Config{Bootstrap: bootstrap.NewLocalGroup(1)[0], Device: dev})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
