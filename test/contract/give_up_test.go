package contract_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
)

// want checks that rank r got an error of a kind that blames a rank.
func want(t *testing.T, what string, r int, err, kind error, peer int) {
	t.Helper()
	var e *goccl.Error
	if !errors.As(err, &e) || e.Peer != peer || !errors.Is(err, kind) {
		t.Errorf("%s, rank %d: %v, want an error of rank %d, %v", what, r, err, peer, kind)
	}
}

// A rank that gives up NewComm is named by the ranks that wait for it, long before their own deadline. The ranks may
// try again.
func TestGivingUpSetUpIsTold(t *testing.T) {
	const n = 3
	for _, test := range []struct {
		name string
		ctx  func(ctx context.Context) (context.Context, context.CancelFunc) // of rank 1
		set  func(cfg *goccl.Config)                                         // of rank 1
		kind error                                                           // what rank 0 gets, and who is blamed
		peer int
	}{
		{name: "the context has ended", kind: goccl.ErrAborted, peer: 1,
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, stop := context.WithCancel(ctx)
				stop()
				return ctx, stop
			}},
		{name: "a bad setting", kind: goccl.ErrAborted, peer: 1, set: func(cfg *goccl.Config) { cfg.MaxCTAs = -1 }},
		{name: "no device", kind: goccl.ErrAborted, peer: 1, set: func(cfg *goccl.Config) { cfg.Device = nil }},
		{name: "the context ends", kind: goccl.ErrAborted, peer: 1,
			ctx: func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, stop := context.WithCancel(ctx)
				time.AfterFunc(50*time.Millisecond, stop)
				return ctx, stop
			}},
		{name: "the deadline", kind: goccl.ErrTimeout, peer: 2,
			set: func(cfg *goccl.Config) { cfg.Timeout = 50 * time.Millisecond }},
	} {
		t.Run(test.name, func(t *testing.T) {
			boots := bootstrap.NewLocalGroup(n)
			var devs [n]device.Device
			for r := range devs {
				devs[r], _ = commtest.Host(r)
				defer func() { _ = devs[r].Close() }()
			}
			first := make(chan struct{}) // closed when ranks 0 and 1 have their errors
			failed := make([]error, n)
			var again [n]*goccl.Comm
			err := commtest.Each(n, func(r int) (err error) {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				good := goccl.Config{Bootstrap: boots[r], Device: devs[r], Timeout: 10 * time.Minute}
				cfg := good
				if r == 1 && test.set != nil {
					test.set(&cfg)
				}
				if r == 1 && test.ctx != nil {
					var stop func()
					ctx, stop = test.ctx(ctx)
					defer stop()
				}
				if r == 2 { // it comes too late
					<-first
				}
				_, failed[r] = goccl.NewComm(ctx, cfg)
				if r == 0 {
					close(first)
				}
				again[r], err = goccl.NewComm(t.Context(), good)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for r := range again {
				defer func() { _ = again[r].Close() }()
			}
			want(t, "NewComm", 0, failed[0], test.kind, test.peer)
			if failed[1] == nil || failed[2] == nil {
				t.Errorf("rank 1: %v, rank 2: %v, want errors", failed[1], failed[2])
			}
		})
	}
}

// An abort ends the Split or Grow of the other ranks with an error that names the rank that aborted. A call that a rank
// refuses does the same.
func TestAbortEndsJointCalls(t *testing.T) {
	const n, victim = 3, 1
	patient := func(_ int, cfg *goccl.Config) { cfg.Timeout = 10 * time.Minute }
	split := func(ctx context.Context, c *goccl.Comm, color int) error {
		_, err := c.Split(ctx, color, 0)
		return err
	}
	grow := func(ctx context.Context, c *goccl.Comm, _ int) error {
		_, err := c.Grow(ctx, n+1, nil)
		return err
	}
	for name, test := range map[string]struct {
		call   func(ctx context.Context, c *goccl.Comm, color int) error
		victim func(ctx context.Context, c *goccl.Comm)
		peer   int
	}{
		"abort": {split, func(_ context.Context, c *goccl.Comm) { c.Abort(nil) }, victim},
		"abort before the call": {split, func(ctx context.Context, c *goccl.Comm) {
			c.Abort(nil)
			_ = split(ctx, c, 0)
		}, victim},
		"abort because of another rank": {split, func(_ context.Context, c *goccl.Comm) {
			c.Abort(&goccl.Error{Op: "split", Rank: victim, Peer: 0, Err: goccl.ErrTimeout})
		}, 0},
		"abort while they grow": {grow, func(_ context.Context, c *goccl.Comm) { c.Abort(nil) }, victim},
		"a wrong color":         {split, func(ctx context.Context, c *goccl.Comm) { _ = split(ctx, c, -7) }, victim},
		"the context ends": {split, func(ctx context.Context, c *goccl.Comm) {
			ctx, stop := context.WithCancel(ctx)
			stop()
			_ = split(ctx, c, 0)
		}, victim},
	} {
		t.Run(name, func(t *testing.T) {
			comms := commtest.New(t, n, commtest.Host, patient)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			_ = commtest.Each(n, func(r int) error {
				if r == victim {
					test.victim(ctx, comms[r])
					return nil
				}
				if r == test.peer {
					_ = test.call(ctx, comms[r], r)
					return nil
				}
				kind := goccl.ErrAborted
				if test.peer != victim {
					kind = goccl.ErrTimeout
				}
				want(t, name, r, test.call(ctx, comms[r], r), kind, test.peer)
				return nil
			})
		})
	}
}
