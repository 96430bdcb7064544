package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/mockcuda"
	"github.com/goccl/goccl/test/testutil"
)

func TestMock(t *testing.T) { commtest.RunOnMock(t) }

// A call allocates nothing in Go.
func TestOnMockAllocations(t *testing.T) {
	c := commtest.OnMock(t, 4, nil)[1]
	s, p := commtest.MockStream(t, c), commtest.Scratch(t, c)
	counts, displs := []int64{8, 8, 8, 8}, []int64{0, 8, 16, 24}
	ring := []collective.Request{{Collective: collective.Send, Send: p, Count: 64, Peer: 2, Stream: s},
		{Collective: collective.Recv, Recv: p, Count: 64, Peer: 0, Stream: s}}
	for name, call := range map[string]func() error{
		"all_reduce":     func() error { return c.AllReduce(p, p, 256, datatype.Float32, datatype.Sum, s) },
		"default stream": func() error { return c.AllReduce(p, p, 256, datatype.Float32, datatype.Sum, nil) },
		"broadcast":      func() error { return c.Broadcast(p, p, 256, datatype.Float32, 2, s) },
		"all_to_all_v": func() error {
			return c.AllToAllV(p, counts, displs, p.Add(4096), counts, displs, datatype.Float32,
				s)
		},
		"send_recv": func() error { return c.Submit(ring...) },
	} {
		if err := call(); err != nil {
			t.Fatal(name, err)
		}
		if n := testutil.Allocations(func() {
			if err := call(); err != nil {
				t.Fatal(name, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Nor does a group of several communicators.
func TestOnMockGroupAllocations(t *testing.T) {
	a, b := commtest.OnMock(t, 4, nil)[1], commtest.OnMock(t, 4, nil)[1]
	s, p := commtest.MockStream(t, a), commtest.Scratch(t, a)
	call := func(c *goccl.Comm, n int64) goccl.Call {
		return goccl.Call{Comm: c, Request: collective.Request{Collective: collective.AllReduce, Send: p, Recv: p, Count: n,
			Type: datatype.Int8, Stream: s}}
	}
	calls := []goccl.Call{call(a, 16), call(b, 32), call(a, 48), call(b, 64)}
	if n := testutil.Allocations(func() {
		if err := goccl.Submit(calls); err != nil {
			t.Fatal(err)
		}
	}); n != 0 && commtest.Slowness == 1 { // with the race detector, sync.Pool drops items at random
		t.Errorf("%v allocations", n)
	}
}

// The calling thread enqueues a group of several communicators: stream 2 is that thread's own.
func TestOnMockGroupStaysOnItsThread(t *testing.T) {
	comms := commtest.OnMock(t, 4, nil)
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var calls []goccl.Call
	for _, c := range comms {
		s, err := c.Device().WrapStream(2)
		if err != nil {
			t.Fatal(err)
		}
		p := commtest.Scratch(t, c)
		calls = append(calls,
			goccl.Call{Comm: c, Request: collective.Request{Collective: collective.AllReduce, Send: p, Recv: p, Count: 8,
				Type: datatype.Int8, Stream: s}})
	}
	trace.Start()
	err = goccl.Submit(calls)
	noted, terr := trace.Stop()
	if err := errors.Join(err, terr); err != nil {
		t.Fatal(err)
	}
	launched := 0
	for _, n := range noted {
		if n.Kind == mockcuda.Launch {
			launched++
			if n.Stream != 2 || int(n.A) != syscall.Gettid() {
				t.Errorf("a launch on stream %d by thread %d, not %d", n.Stream, n.A, syscall.Gettid())
			}
		}
	}
	if launched != len(comms) {
		t.Errorf("%d launches by %d ranks", launched, len(comms))
	}
}

// learns waits until c has detected that peer has left.
func learns(c *goccl.Comm, peer int, within time.Duration) error {
	end := time.Now().Add(within)
	for c.AsyncError() == nil {
		if time.Now().After(end) {
			return fmt.Errorf("rank %d knows of nothing after %v", c.Rank(), within)
		}
		time.Sleep(time.Millisecond)
	}
	var ge *goccl.Error
	if err := c.AsyncError(); !errors.As(err, &ge) || ge.Peer != peer || !errors.Is(err, goccl.ErrAborted) {
		return fmt.Errorf("rank %d: %v", c.Rank(), err)
	}
	return nil
}

// An abort with work under way ends the peers' work.
func TestOnMockAbortReachesPeers(t *testing.T) {
	comms := commtest.OnMock(t, 3, nil)
	s, p := commtest.MockStream(t, comms[1]), commtest.Scratch(t, comms[1])
	if err := s.WaitValue64(p.Add(4096), 1); err != nil { // keeps later work from ending
		t.Fatal(err)
	}
	if err := comms[1].AllReduce(p, p, 8, datatype.Int8, datatype.Sum, s); err != nil {
		t.Fatal(err)
	}
	comms[1].Abort(nil)
	for _, r := range []int{0, 2} {
		if err := learns(comms[r], 1, commtest.Soon); err != nil {
			t.Error(err)
		}
	}
	if err := comms[0].Barrier(nil); !errors.Is(err, goccl.ErrAborted) {
		t.Errorf("a later call: %v", err)
	}
	if err := s.WriteValue64(p.Add(4096), 1); err != nil { // has no effect after the wait
		t.Fatal(err)
	}
	if err := comms[1].Device().CopyIn(p.Add(4096), []byte{1}); err != nil {
		t.Fatal(err)
	}
}

// The same over sockets, long after one Recv of a notice has timed out.
func TestOnMockAbortOverSockets(t *testing.T) {
	commtest.NeedMock(t)
	const n = 3
	address := fmt.Sprintf("unix:@goccl-test-%d-%016x", os.Getpid(), rand.Uint64())
	comms := make([]*goccl.Comm, n)
	if err := commtest.Each(n, func(r int) error {
		boot, err := bootstrap.JoinAddress(context.Background(), address, r, n, bootstrap.WithTimeout(4*time.Second))
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = boot.Close() })
		dev, err := cuda.Open(r)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = dev.Close() })
		comms[r], err = goccl.NewComm(context.Background(), goccl.Config{Bootstrap: boot, Device: dev})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(4500 * time.Millisecond)
	p := commtest.Scratch(t, comms[0])
	if err := comms[0].AllReduce(p, p, 8, datatype.Int8, datatype.Sum, nil); err != nil { // ahead of rank 2
		t.Fatal(err)
	}
	comms[2].Abort(nil)
	if err := learns(comms[0], 2, commtest.Soon); err != nil {
		t.Error(err)
	}
	if err := comms[1].AsyncError(); err != nil { // it has called nothing
		t.Error(err)
	}
	if err := commtest.Each(n, func(r int) error { return comms[r].Close() }); err != nil {
		t.Error(err)
	}
}

// An abort of a rank without pending work has no effect on its peers until they call more.
func TestOnMockAbortOfIdleRank(t *testing.T) {
	for _, end := range []string{"abort", "close"} {
		comms := commtest.OnMock(t, 3, nil)
		call := func(r int) error {
			p := commtest.Scratch(t, comms[r])
			return comms[r].AllReduce(p, p, 8, datatype.Int8, datatype.Sum, nil)
		}
		for range 3 {
			if err := call(1); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := errors.Join(call(0), call(2)); err != nil {
				t.Fatal(err)
			}
		}
		if end == "abort" {
			comms[1].Abort(nil)
		} else if err := comms[1].Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		if err := call(0); err != nil { // the third call: rank 1 has done its part
			t.Errorf("after %s: %v", end, err)
		}
		if err := comms[0].AsyncError(); err != nil {
			t.Errorf("after %s: %v", end, err)
		}
		// Rank 1 never does its part of the fourth. The call fails after the notice has arrived.
		var err error
		for deadline := time.Now().Add(commtest.Soon); err == nil &&
			time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			err = call(0)
		}
		if err := learns(comms[0], 1, 0); err != nil {
			t.Errorf("after %s: %v", end, err)
		}
		if err == nil {
			t.Errorf("after %s: calls go on", end)
		}
	}
}

// A rank that is already ahead of a leaving rank gets the error at once; so does a rank that waits for a message that
// was never sent.
func TestOnMockAheadOfLeaver(t *testing.T) {
	comms := commtest.OnMock(t, 3, nil)
	p := commtest.Scratch(t, comms[0])
	if err := comms[0].AllReduce(p, p, 8, datatype.Int8, datatype.Sum, nil); err != nil {
		t.Fatal(err)
	}
	if err := comms[2].Recv(p, 8, datatype.Int8, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := comms[1].Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []int{0, 2} {
		if err := learns(comms[r], 1, commtest.Soon); err != nil {
			t.Error(err)
		}
	}
}

// Working communicators can be made after Shrink with abort and after Revoke.
func TestOnMockShrinkAfterAbort(t *testing.T) {
	comms := commtest.OnMock(t, 4, nil)
	p := commtest.Scratch(t, comms[3])
	if err := comms[3].AllReduce(p, p, 8, datatype.Int8, datatype.Sum, nil); err != nil {
		t.Fatal(err)
	}
	comms[3].Abort(nil)
	small := make([]*goccl.Comm, 3)
	if err := commtest.Each(3, func(r int) (err error) {
		small[r], err = comms[r].Shrink(context.Background(), []int{3}, true)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range small {
		if err := c.AllReduce(p, p, 8, datatype.Int8, datatype.Sum, nil); err != nil {
			t.Error(err)
		}
	}
	split := make([]*goccl.Comm, 3)
	if err := commtest.Each(3, func(r int) (err error) {
		small[r].Revoke()
		split[r], err = small[r].Split(context.Background(), 0, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for r := range 3 {
		if err := small[r].Close(); err != nil {
			t.Error(err)
		}
	}
	for r, c := range split {
		if err := c.AllReduce(p, p, 8, datatype.Int8, datatype.Sum, nil); err != nil {
			t.Errorf("rank %d after its parent was closed: %v", r, err)
		}
	}
	if err := commtest.Each(3, func(r int) error { return split[r].Close() }); err != nil {
		t.Error(err)
	}
}

// GOCCL_ALGO accepts the names of the engine's algorithms and of registered algorithms. Other names are refused, with a
// list, when the collective is called.
func TestOnMockForced(t *testing.T) {
	t.Setenv("GOCCL_ALGO", "all_reduce:two_shot_ll128/64,all_gather:nobody,reduce_scatter:allreduce")
	c := commtest.OnMock(t, 2, nil)[0]
	p := commtest.Scratch(t, c)
	if err := c.AllReduce(p, p, 256, datatype.Float32, datatype.Sum, nil); err != nil {
		t.Error(err)
	}
	for name, call := range map[string]func() error{
		"nobody":    func() error { return c.AllGather(p, p.Add(4096), 8, datatype.Float32, nil) },
		"allreduce": func() error { return c.ReduceScatter(p, p.Add(4096), 8, datatype.Float32, datatype.Sum, nil) },
	} {
		if err := call(); !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), `"`+name+`"`) ||
			!strings.Contains(err.Error(), "one_shot_ll, one_shot_ll128") {
			t.Errorf("%s: %v", name, err)
		}
	}
	forceable := 0
	for _, a := range c.Catalog() {
		if a.Forceable {
			forceable++
		}
		if a.Registered {
			t.Errorf("%+v", a)
		}
	}
	if forceable < 10 {
		t.Errorf("%d algorithms to choose from", forceable)
	}
}

// BenchmarkOnMock measures the CPU time of a call with a driver that does almost nothing.
func BenchmarkOnMock(b *testing.B) {
	c := commtest.OnMock(b, 4, nil)[1]
	s, p := commtest.MockStream(b, c), commtest.Scratch(b, c)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.AllReduce(p, p, 256, datatype.Float32, datatype.Sum, s); err != nil {
			b.Fatal(err)
		}
	}
}

// Ranks finalize at different times, one aborts instead, and one closes only after the others: no rank fails, and Close
// frees no memory that a peer uses.
func TestOnMockFinalize(t *testing.T) {
	comms := commtest.OnMock(t, 4, nil)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := commtest.Each(4, func(r int) error {
		p, s := commtest.Scratch(t, comms[r]), commtest.MockStream(t, comms[r])
		return comms[r].AllReduce(p, p, 256, datatype.Float32, datatype.Sum, s)
	}); err != nil {
		t.Fatal(err)
	}
	if err := comms[0].Finalize(ctx); err != nil {
		t.Error(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- comms[0].Close() }()
	comms[1].Abort(nil)
	for _, r := range []int{2, 3} {
		select {
		case err := <-closed:
			t.Fatalf("rank 0 was closed (%v) before rank %d left", err, r)
		case <-time.After(20 * time.Millisecond):
		}
		if err := comms[r].Finalize(ctx); err != nil {
			t.Errorf("rank %d, whose work is done, after rank 1 aborted: %v", r, err)
		}
	}
	if err := comms[1].Close(); err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	for _, r := range []int{2, 3} {
		if err := comms[r].Close(); err != nil {
			t.Error(err)
		}
	}
}
