package contract_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/test/commtest"
)

// Operations of one communicator on several streams in rotation, which only the communicator orders: each operation has
// its own buffers, so only the communicator's internal memory could be corrupted. With destroy, a stream is closed
// directly after its work is enqueued. Ranks that share a GPU then wait for their work from time to time: the streams
// of a process share the GPU's hardware queues, and a rank's operation must not stand behind one that waits for it.
func TestGPUStreams(t *testing.T) {
	n, open := commtest.GPUs(t)
	for _, destroy := range []bool{false, true} {
		t.Run(map[bool]string{false: "kept", true: "destroyed"}[destroy], func(t *testing.T) {
			comms := commtest.New(t, n, open, nil)
			alternate(t, comms, 12, destroy, comms[0].Device().ID() == comms[n-1].Device().ID())
		})
	}
}

// The same on the host device; it also validates the checks.
func TestHostStreams(t *testing.T) {
	alternate(t, commtest.New(t, 3, commtest.Host, nil), 4, false, false)
}

// alternate runs on every rank at once; the order in which operations use the three streams differs between ranks.
func alternate(t *testing.T, comms []*goccl.Comm, rounds int, destroy, shared bool) {
	t.Helper()
	var all []*alternator
	for _, c := range comms { // no allocation is allowed while a kernel waits for its rank
		a, err := newAlternator(c, rounds)
		if err != nil {
			t.Fatal(err)
		}
		a.destroy, a.shared = destroy, shared
		all = append(all, a)
	}
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			if err := a.run(); err != nil {
				t.Errorf("rank %d: %v", a.c.Rank(), err)
			}
		})
	}
	wg.Wait()
	for _, a := range all {
		if err := a.close(); err != nil {
			t.Errorf("rank %d: %v", a.c.Rank(), err)
		}
	}
}

// alternateCounts are counts in float32: one block, many blocks, and more than one pass.
var alternateCounts = []int64{4, 1013, 40_000, 300_000}

type alternator struct {
	c      *goccl.Comm
	n      int
	in     device.Allocation // of the largest count, for each rank
	jobs   []turn
	stream [3]device.Stream

	destroy bool // streams are closed with work on them
	shared  bool // with destroy: of a GPU with several ranks
}

type turn struct {
	what  int // 0 … 4, see enqueue
	count int64
	out   device.Allocation
}

func newAlternator(c *goccl.Comm, rounds int) (*alternator, error) {
	a := &alternator{c: c, n: c.WorldSize()}
	most := alternateCounts[len(alternateCounts)-1] * int64(a.n)
	host := make([]byte, 4*most)
	for i := range most {
		binary.LittleEndian.PutUint32(host[4*i:], math.Float32bits(a.value(c.Rank(), i)))
	}
	var err error
	if a.in, err = c.Device().Alloc(4 * most); err != nil {
		return nil, err
	}
	if err = c.Device().CopyIn(a.in.Ptr(), host); err != nil {
		return nil, err
	}
	for k := range a.stream {
		if a.stream[k], err = c.Device().NewStream(); err != nil {
			return nil, err
		}
	}
	for i := range rounds {
		for what := range 5 {
			count := alternateCounts[(i+what)%len(alternateCounts)]
			out, err := c.Device().Alloc(4 * count * int64(a.n))
			if err != nil {
				return nil, err
			}
			a.jobs = append(a.jobs, turn{what, count, out})
		}
	}
	return a, nil
}

// value returns rank r's input at i: small integers, whose sums are exact.
func (a *alternator) value(r int, i int64) float32 { return float32((int64(r)*31 + i*7 + i>>6) % 97) }

// run enqueues all work before it checks any.
func (a *alternator) run() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for i, j := range a.jobs {
		k := (i + a.c.Rank()) % len(a.stream)
		if err := a.enqueue(j.what, i, j.count, j.out.Ptr(), a.stream[k]); err != nil {
			return err
		}
		if !a.destroy {
			continue
		}
		err := a.stream[k].Close()
		if a.shared && i%3 == 2 {
			err = errors.Join(err, a.c.Drain(ctx))
		}
		if err != nil {
			return err
		}
		if a.stream[k], err = a.c.Device().NewStream(); err != nil {
			return err
		}
	}
	if err := a.c.Drain(ctx); err != nil {
		return err
	}
	for _, s := range a.stream {
		if err := s.Synchronize(ctx); err != nil {
			return err
		}
	}
	for i, j := range a.jobs {
		if err := a.check(j.what, i, j.count, j.out.Ptr()); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil
}

func (a *alternator) enqueue(what, i int, count int64, out device.Ptr, s device.Stream) error {
	in, n := a.in.Ptr(), int64(a.n)
	switch what {
	case 0:
		return a.c.AllReduce(in, out, count, datatype.Float32, datatype.Sum, s)
	case 1:
		return a.c.Broadcast(in, out, count, datatype.Float32, i%a.n, s)
	case 2:
		counts, displs := make([]int64, n), make([]int64, n)
		for p := range n {
			counts[p], displs[p] = count, p*count
		}
		return a.c.AllToAllV(in, counts, displs, out, counts, displs, datatype.Float32, s)
	case 3:
		return a.c.AllGather(in, out, count, datatype.Float32, s)
	}
	return a.c.ReduceScatter(in, out, count, datatype.Float32, datatype.Sum, s)
}

func (a *alternator) check(what, i int, count int64, out device.Ptr) error {
	n, rank := int64(a.n), a.c.Rank()
	length := count
	if what == 2 || what == 3 {
		length *= n
	}
	got := make([]byte, 4*length)
	if err := a.c.Device().CopyOut(got, out); err != nil {
		return err
	}
	for e := range length {
		var want float32
		switch what {
		case 0:
			for r := range a.n {
				want += a.value(r, e)
			}
		case 1:
			want = a.value(i%a.n, e)
		case 2:
			want = a.value(int(e/count), int64(rank)*count+e%count)
		case 3:
			want = a.value(int(e/count), e%count)
		case 4:
			for r := range a.n {
				want += a.value(r, int64(rank)*count+e)
			}
		}
		if v := math.Float32frombits(binary.LittleEndian.Uint32(got[4*e:])); v != want {
			return fmt.Errorf("collective %d of %d elements: element %d is %v, not %v", what, count, e, v, want)
		}
	}
	return nil
}

func (a *alternator) close() error {
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, s := range a.stream {
		keep(s.Close())
	}
	for _, j := range a.jobs {
		keep(j.out.Close())
	}
	keep(a.in.Close())
	return first
}

// A plan and the engine's own collectives are in order, too: the first, on a stream that is held up, writes what the
// second reads on another stream.
func TestHostOrderOfPlans(t *testing.T) {
	const n, count = 2, 4
	for _, name := range []string{"allreduce_twoshot_ll", "allgather_direct"} {
		t.Run(name, func(t *testing.T) {
			comms, p := commtest.New(t, n, commtest.Host, nil), buildPlan(t, name, n)
			if err := everyRank(comms, func(c *goccl.Comm) error { return c.RegisterPlan(t.Context(), p) }); err != nil {
				t.Fatal(err)
			}
			if err := everyRank(comms, func(c *goccl.Comm) error { return sumThenGather(t.Context(), c, count) }); err != nil {
				t.Error(err)
			}
		})
	}
}

func sumThenGather(ctx context.Context, c *goccl.Comm, count int64) error {
	n := c.WorldSize()
	x, err1 := c.Device().Alloc(4 * count)
	all, err2 := c.Device().Alloc(4 * count * int64(n))
	first, err3 := c.Device().NewStream()
	second, err4 := c.Device().NewStream()
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	want := make([]byte, 4*count*int64(n))
	for i := range int(count) * n {
		binary.NativeEndian.PutUint32(want[4*i:], uint32(n))
	}
	in := device.Bytes(x.Ptr(), 4*count)
	for i := range count {
		binary.NativeEndian.PutUint32(in[4*i:], 1)
	}
	gathered := make(chan struct{})
	err := errors.Join(
		first.(*host.Stream).Launch("hold", 1, func(*host.Block) error {
			select {
			case <-gathered: // too early
			case <-time.After(50 * time.Millisecond):
			}
			return nil
		}),
		c.AllReduce(x.Ptr(), x.Ptr(), count, datatype.Int32, datatype.Sum, first),
		c.AllGather(x.Ptr(), all.Ptr(), count, datatype.Int32, second),
		second.(*host.Stream).Launch("gathered", 1, func(*host.Block) error { close(gathered); return nil }),
		c.Synchronize(ctx, first), c.Synchronize(ctx, second))
	if got := device.Bytes(all.Ptr(), int64(len(want))); !bytes.Equal(got, want) {
		err = errors.Join(err, fmt.Errorf("rank %d gathered %v, not the sums %v", c.Rank(), got, want))
	}
	return errors.Join(err, x.Close(), all.Close(), first.Close(), second.Close())
}
