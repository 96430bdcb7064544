package contract_test

import (
	"context"
	"errors"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/mockcuda"
)

func each(t *testing.T, comms []*goccl.Comm, f func(c *goccl.Comm) error) {
	t.Helper()
	if err := commtest.Each(len(comms), func(r int) error { return f(comms[r]) }); err != nil {
		t.Fatal(err)
	}
}

// A suspended communicator refuses work, and after Resume works as before.
func TestSuspend(t *testing.T) {
	commtest.OnKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		comms := commtest.New(t, n, open, nil)
		for range 3 {
			for seed := range 5 {
				c := commtest.SomeCase
				c.Seed = uint64(seed)
				if err := conformance.Run(comms, c); err != nil {
					t.Fatal(err)
				}
			}
			each(t, comms, func(c *goccl.Comm) error { return c.Suspend(context.Background()) })
			for _, c := range comms {
				if m, err := c.Memory(); err != nil || !m.Suspended || m.Persistent == 0 {
					t.Errorf("%+v, %v", m, err)
				}
				if err := c.Barrier(nil); !errors.Is(err, goccl.ErrInvalidUsage) {
					t.Errorf("work while suspended: %v", err)
				}
				if err := c.Suspend(context.Background()); !errors.Is(err, goccl.ErrInvalidUsage) {
					t.Errorf("suspended twice: %v", err)
				}
			}
			each(t, comms, func(c *goccl.Comm) error { return c.Resume(context.Background()) })
		}
		if err := conformance.Run(comms, commtest.SomeCase); err != nil {
			t.Error(err)
		}
		if err := comms[0].Resume(context.Background()); !errors.Is(err, goccl.ErrInvalidUsage) {
			t.Errorf("resumed twice: %v", err)
		}
	})
}

// On a GPU the memory of the arena is freed, and there is a new one after Resume.
func TestOnMockSuspend(t *testing.T) {
	comms := commtest.OnMock(t, 2, nil)
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	before, err := comms[0].Memory()
	if err != nil || before.Suspendable < 1<<20 || before.Suspended {
		t.Fatalf("%+v, %v", before, err)
	}
	each(t, comms, func(c *goccl.Comm) error { return c.Suspend(context.Background()) })
	each(t, comms, func(c *goccl.Comm) error { return c.Resume(context.Background()) })
	for _, c := range comms {
		s, p := commtest.MockStream(t, c), commtest.Scratch(t, c)
		trace.Start()
		err := c.AllReduce(p, p, 256, datatype.Float32, datatype.Sum, s)
		calls, terr := trace.Stop()
		if err := errors.Join(err, terr); err != nil {
			t.Fatal(err)
		}
		launched := 0
		for _, n := range calls {
			if n.Kind == mockcuda.Launch {
				launched++
			}
		}
		if launched != 1 {
			t.Errorf("%d launches after Resume", launched)
		}
	}
}
