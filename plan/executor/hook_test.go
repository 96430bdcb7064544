package executor_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/plans"
)

func tiled(t *testing.T, ranks, tiles int) *plan.Plan {
	t.Helper()
	p, err := plans.AllGatherTiles(ranks, tiles)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHooks: tiles that a rank's caller writes one after the other, while the plan runs, arrive at the peers one after
// the other: each caller reads a peer's tile before that peer has written the next.
func TestHooks(t *testing.T) {
	const n, tiles, launches, size = 3, 3, 4, 1 << 10
	p := tiled(t, n, tiles)
	j := newJob(t, n, openHost)
	xs := j.load(t, p)
	ctx := bounded(t)
	if err := j.each(func(r int) error {
		dev := j.devs[r]
		var streams [3]*host.Stream
		for i := range streams {
			s, err := dev.NewStream()
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			streams[i] = s.(*host.Stream)
		}
		in, err := dev.Alloc(tiles * size)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		out, err := dev.Alloc(n * tiles * size)
		if err != nil {
			return err
		}
		defer func() { _ = out.Close() }()
		word := func(launch, rank, tile int) byte { return byte(1 + launch*n*tiles + rank*tiles + tile) }
		for launch := range launches {
			// the plan first: it waits for what comes below
			if err := xs[r].Execute(ctx, executor.Args{Send: in.Ptr(), Recv: out.Ptr(), Message: n * tiles * size,
				Type: datatype.Int32, Stream: streams[0], Seq: uint64(launch)}); err != nil {
				return err
			}
			for k := range tiles {
				at := device.Bytes(in.Ptr().Add(int64(k*size)), size)
				if err := streams[1].Launch("produce", 1, func(*host.Block) error {
					copy(at, bytes.Repeat([]byte{word(launch, r, k)}, size))
					return nil
				}); err != nil {
					return err
				}
				if err := xs[r].RaiseHook(streams[1], k, uint64(launch)+1); err != nil {
					return err
				}
				// The next tile is not written before all ranks have read this one.
				for q := range n {
					if err := xs[r].AwaitHook(streams[2], tiles+q*tiles+k, uint64(launch)+1); err != nil {
						return err
					}
					got := device.Bytes(out.Ptr().Add(int64((q*tiles+k)*size)), size)
					if err := streams[2].Launch("consume", 1, func(*host.Block) error {
						if want := word(launch, q, k); got[0] != want || got[size-1] != want {
							return fmt.Errorf("launch %d: rank %d reads %d of tile %d of rank %d, not %d", launch, r, got[0], k, q, want)
						}
						return nil
					}); err != nil {
						return err
					}
				}
				if err := streams[2].Synchronize(ctx); err != nil {
					return err
				}
				if err := j.boots[r].Barrier(ctx); err != nil {
					return err
				}
			}
			if err := streams[0].Synchronize(ctx); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestHooksAreRaised: planrun raises hooks as a caller would: several executions, fresh data.
func TestHooksAreRaised(t *testing.T) {
	p := tiled(t, 2, 2)
	j := newJob(t, 2, openHost)
	xs := j.load(t, p)
	for i, m := range []uint64{4096, 3 << 16} {
		if err := j.run(bounded(t), xs, planrun.Case{Message: m, Type: datatype.Float32, Times: 5, Fresh: 2,
			Seed: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHookNeverRaised: a launch whose caller does not come ends with an error that says so.
func TestHookNeverRaised(t *testing.T) {
	p := tiled(t, 2, 1)
	j := newPatientJob(t, 2, openHost, 300*time.Millisecond)
	xs := j.load(t, p)
	err := j.each(func(r int) error {
		s, err := j.devs[r].NewStream()
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		buf, err := j.devs[r].Alloc(8192)
		if err != nil {
			return err
		}
		defer func() { _ = buf.Close() }()
		if err := xs[r].Execute(bounded(t), executor.Args{Send: buf.Ptr(), Recv: buf.Ptr().Add(4096), Message: 4096,
			Type: datatype.Int32, Stream: s}); err != nil {
			return err
		}
		return s.Synchronize(bounded(t))
	})
	if !errors.Is(err, collective.ErrTimeout) || !strings.Contains(err.Error(), "waiting for its caller at hook 0") {
		t.Error(err)
	}
}

// TestHooksRefuse: what hooks cannot say is refused, not done wrong.
func TestHooksRefuse(t *testing.T) {
	p := tiled(t, 2, 1)
	j := newJob(t, 2, openHost)
	xs := j.load(t, p)
	s, err := j.devs[0].NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for name, c := range map[string]struct {
		err  error
		says string
	}{
		"no such hook":      {xs[0].RaiseHook(s, 9, 1), "has 3"},
		"raises output":     {xs[0].RaiseHook(s, 1, 1), "the plan raises it"},
		"awaits input":      {xs[0].AwaitHook(s, 0, 1), "the caller raises it"},
		"address of none":   {func() error { _, err := xs[0].Hook(-1); return err }(), "hook -1"},
		"as a collective's": {build(j, p), "hooks"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if executor.Selectable(p) {
		t.Error("a communicator selects a plan with hooks")
	}
}

func build(j *job, p *plan.Plan) error {
	_, err := (&executor.Builder{Plan: p, Executor: j.execs[0]}).Build(context.Background(), collective.Job{})
	return err
}

// TestGPUHooks is TestHooks on GPUs: memory operations of streams raise hooks, eagerly and for replays of a graph.
func TestGPUHooks(t *testing.T) {
	n, open := commtest.GPUs(t)
	p := tiled(t, n, 2)
	j := newJob(t, n, open)
	xs := j.load(t, p, executor.Registered())
	for i, m := range []uint64{uint64(n) * 4096, uint64(n) << 20} {
		for _, replays := range []int{0, 20} {
			if err := j.each(func(r int) error {
				c := planrun.Case{Message: m, Type: datatype.Float32, Times: 4, Replays: replays, Seed: uint64(i)}
				c.Prepare = func(ctx context.Context, send, recv device.Ptr) error {
					return errors.Join(j.execs[r].Register(ctx, send), j.execs[r].Register(ctx, recv))
				}
				if _, err := planrun.Rank(bounded(t), xs[r], r, j.devs[r], c); err != nil {
					return err
				}
				return raised(xs[r], j.devs[r])
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// raised checks that the plan has signalled every output hook as often as it took the input hooks.
func raised(x *executor.ExecutionPlan, dev device.Device) error {
	var want uint64
	for id := range x.Plan().GPUs[0].Hooks() {
		at, err := x.Hook(id)
		if err != nil {
			return err
		}
		word := make([]byte, 8)
		if err := dev.CopyOut(word, at); err != nil {
			return err
		}
		switch got := binary.NativeEndian.Uint64(word); {
		case id == 0:
			want = got
		case got != want:
			return fmt.Errorf("hook %d counts %d launches, hook 0 counts %d", id, got, want)
		}
	}
	return nil
}
