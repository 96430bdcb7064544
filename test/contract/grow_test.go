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
	"github.com/goccl/goccl/test/conformance"
)

// grow grows comms to size ranks: the new ones join by the id, as ranks of any job.
func grow(t *testing.T, comms []*goccl.Comm, size int, open func(r int) (device.Device, error)) []*goccl.Comm {
	t.Helper()
	id, err := bootstrap.NewUniqueID()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]*goccl.Comm, size)
	if err := commtest.Each(size, func(r int) (err error) {
		ctx := context.Background()
		if r < len(comms) {
			var mine *bootstrap.UniqueID
			if r == len(comms)-1 { // any rank may have it
				mine = &id
			}
			out[r], err = comms[r].Grow(ctx, size, mine)
			return err
		}
		dev, err := open(r)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = dev.Close() })
		b, err := bootstrap.JoinID(ctx, id, r, size)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = b.Close() })
		out[r], err = goccl.NewComm(ctx, goccl.Config{Bootstrap: b, Device: dev, OpTimeout: 20 * time.Second})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range out {
			_ = c.Close()
		}
	})
	return out
}

// A communicator grows, also one that was shrunk after a death, and works beside and after the one it came from.
func TestGrow(t *testing.T) {
	commtest.OnKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		old := commtest.New(t, n, open, nil)
		grown := grow(t, old, n+2, open)
		for r, c := range grown {
			if c.Rank() != r || c.WorldSize() != n+2 {
				t.Errorf("rank %d is %d of %d", r, c.Rank(), c.WorldSize())
			}
		}
		for i, comms := range [][]*goccl.Comm{grown, old} {
			if err := conformance.Run(comms, commtest.SomeCase); err != nil {
				t.Error(i, err)
			}
		}
		for _, c := range old {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := conformance.Run(grown, commtest.SomeCase); err != nil {
			t.Errorf("without the communicator that it came from: %v", err)
		}
		grown[1].Abort(nil) // dies; a rank takes its place
		left := append([]*goccl.Comm{grown[0]}, grown[2:]...)
		shrunk := make([]*goccl.Comm, len(left))
		if err := commtest.Each(len(left), func(i int) (err error) {
			shrunk[i], err = left[i].Shrink(context.Background(), []int{1}, true)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		again := grow(t, shrunk, n+2, open)
		if err := conformance.Run(again, commtest.SomeCase); err != nil {
			t.Error("after a death: ", err)
		}
		for _, c := range shrunk {
			_ = c.Close()
		}
	})
}

// All ranks refuse a call that does not fit together, and can go on.
func TestGrowRefused(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, nil)
	id, err := bootstrap.NewUniqueID()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for name, c := range map[string]struct {
		call func(r int) (*goccl.Comm, error)
		want error
	}{
		"no id":  {func(r int) (*goccl.Comm, error) { return comms[r].Grow(ctx, 3, nil) }, goccl.ErrInvalidArgument},
		"two":    {func(r int) (*goccl.Comm, error) { return comms[r].Grow(ctx, 3, &id) }, goccl.ErrInvalidArgument},
		"sizes":  {func(r int) (*goccl.Comm, error) { return comms[r].Grow(ctx, 3+r, nil) }, goccl.ErrMismatch},
		"no one": {func(r int) (*goccl.Comm, error) { return comms[r].Grow(ctx, 2, &id) }, goccl.ErrInvalidArgument},
		"split": {func(r int) (*goccl.Comm, error) {
			if r == 0 {
				return comms[0].Split(ctx, 0, 0)
			}
			return comms[1].Grow(ctx, 3, &id)
		}, goccl.ErrMismatch},
	} {
		_ = commtest.Each(2, func(r int) error {
			if _, err := c.call(r); !errors.Is(err, c.want) {
				t.Errorf("%s, rank %d: %v", name, r, err)
			}
			return nil
		})
	}
	if err := conformance.Run(comms, commtest.SomeCase); err != nil {
		t.Error(err)
	}
}

// The new rank that does not come is named in time.
func TestGrowWithoutNewRank(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, nil)
	id, err := bootstrap.NewUniqueID(bootstrap.WithTimeout(300 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	short := func(cfg *goccl.Config) { cfg.Timeout = 300 * time.Millisecond }
	_ = commtest.Each(2, func(r int) error {
		mine := &id
		if r == 1 {
			mine = nil
		}
		if _, err := comms[r].Grow(context.Background(), 3, mine, short); !errors.Is(err, bootstrap.ErrTimeout) &&
			!errors.Is(err, goccl.ErrTimeout) && (r == 0 || !errors.Is(err, goccl.ErrClosed)) { // rank 0 closes the id
			t.Errorf("rank %d: %v", r, err)
		}
		return nil
	})
	if err := conformance.Run(comms, commtest.SomeCase); err != nil {
		t.Error(err)
	}
}
