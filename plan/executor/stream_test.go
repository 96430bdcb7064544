package executor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/programs"
)

// TestHostSeveralPlans runs several plans at once, each from its own goroutine and stream, many times.
func TestHostSeveralPlans(t *testing.T) {
	const n = 3
	j := newJob(t, n, openHost)
	var plans [][]*executor.ExecutionPlan
	for _, name := range []string{"allreduce_twoshot_ll", "allreduce_ring", "allgather_direct"} {
		p, err := programs.Build(name, programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		plans = append(plans, j.load(t, p))
	}
	ctx := bounded(t)
	errs := make(chan error, len(plans))
	for k, xs := range plans {
		go func() {
			for i := range 10 {
				if err := j.run(ctx, xs, planrun.Case{Message: uint64(n) * 4 * uint64(100+i*k), Type: datatype.Int32,
					Seed: uint64(i), Times: 5}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range plans {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestHostEpochsWrap sends packets across the wraparound of their 32-bit epochs.
func TestHostEpochsWrap(t *testing.T) {
	const n = 2
	for _, name := range []string{"allreduce_twoshot_ll", "broadcast_ll"} {
		j := newJob(t, n, openHost)
		p, err := programs.Build(name, programs.Options{Ranks: n})
		if err != nil {
			t.Fatal(err)
		}
		xs := j.load(t, p)
		for _, x := range xs {
			executor.StartAt(x, 1<<32-6)
		}
		for i := range 4 {
			if err := j.run(bounded(t), xs, planrun.Case{Message: 1000, Type: datatype.Int8, Seed: uint64(i),
				Times: 3}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestHostOnePlanOnSeveralStreams alternates one plan between two streams, and runs two communicators at once: launches
// that wait for their turn keep their arguments.
func TestHostOnePlanOnSeveralStreams(t *testing.T) {
	const n, launches, count = 3, 40, 96
	p, err := programs.Build("allreduce_direct", programs.Options{Ranks: n})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for comm := range 2 {
		j := newJob(t, n, openHost)
		xs := j.load(t, p)
		wg.Go(func() {
			if err := j.each(func(r int) error {
				return onStreams(bounded(t), j.devs[r], xs[r], r+10*comm, launches,
					count)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// onStreams all-reduces count int32 many times: launch k of rank r contributes k·(r+1) in each element; r is 10 more in
// the second communicator.
func onStreams(ctx context.Context, dev device.Device, x *executor.ExecutionPlan, r, launches, count int) error {
	mem, err := dev.Alloc(int64(2 * launches * count * 4))
	if err != nil {
		return err
	}
	defer func() { _ = mem.Close() }()
	var streams [2]device.Stream
	for i := range streams {
		if streams[i], err = dev.NewStream(); err != nil {
			return err
		}
	}
	words := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(device.Bytes(mem.Ptr(), mem.Size())))),
		2*launches*count)
	for k := range launches {
		at := 2 * k * count
		for i := range count {
			words[at+i] = int32(k * (r + 1))
		}
		a := executor.Args{Send: mem.Ptr().Add(int64(4 * at)), Recv: mem.Ptr().Add(int64(4 * (at + count))),
			Message: uint64(4 * count), Type: datatype.Int32,
			Stream: streams[k%2], Seq: uint64(k)}
		if err := x.Execute(ctx, a); err != nil {
			return err
		}
	}
	for _, s := range streams {
		if err := s.Synchronize(ctx); err != nil {
			return err
		}
	}
	base := r / 10 * 10
	for k := range launches {
		want := int32(k * (3*base + 6))
		for i, got := range words[(2*k+1)*count : (2*k+2)*count] {
			if got != want {
				return fmt.Errorf("rank %d, launch %d: element %d is %d, not %d", r, k, i, got, want)
			}
		}
	}
	return nil
}
