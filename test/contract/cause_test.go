package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/test/commtest"
)

// A rank that aborts because of a third rank passes the cause on: its peers blame the third rank, of whose death they
// do not hear here.
func TestAbortNamesTheCause(t *testing.T) {
	ring := buildPlan(t, "allreduce_ring", 3)
	for name, wait := range map[string]struct{ prepare, run func(c *goccl.Comm) error }{
		"barrier": {run: func(c *goccl.Comm) error { return c.Barrier(nil) }},
		"split":   {run: func(c *goccl.Comm) error { _, err := c.Split(context.Background(), 0, 0); return err }},
		"signal": {func(c *goccl.Comm) error {
			w, err := c.RegisterFlat(commtest.Scratch(t, c), 64)
			if err != nil {
				return err
			}
			return w.Await()
		}, func(c *goccl.Comm) error { return c.WaitSignal([]goccl.SignalWait{{Peer: 0, Count: 1}}, nil) }},
		"flat window": {run: func(c *goccl.Comm) error {
			w, err := c.RegisterFlat(commtest.Scratch(t, c), 64)
			if err != nil {
				return err
			}
			return w.Await()
		}},
		"counters": {func(c *goccl.Comm) error {
			if c.Rank() != 1 {
				return nil
			}
			_, err := c.RegisterFlat(commtest.Scratch(t, c), 64)
			return err
		}, func(c *goccl.Comm) error { return c.Signal(0, goccl.SignalID{}, nil) }},
		"checked": {run: func(c *goccl.Comm) error { return c.Barrier(nil) }},
		"moe": {run: func(c *goccl.Comm) error {
			_, err := c.NewMoE(context.Background(), moe.Size{Bytes: 1 << 20})
			return err
		}},
		"suspend": {run: func(c *goccl.Comm) error { return c.Suspend(context.Background()) }},
		"plan": {func(c *goccl.Comm) error { return c.RegisterPlan(context.Background(), ring) },
			func(c *goccl.Comm) error {
				at := commtest.Scratch(t, c)
				return c.AllReduce(at, at, 12, datatype.Int32, datatype.Sum, nil)
			}},
	} {
		for _, hosts := range [][]int{{0, 0, 0}, {0, 1, 1}, {0, 0, 1}} {
			if (name == "plan" || name == "moe" || name == "suspend") && hosts[2] != 0 {
				continue // of one host
			}
			t.Run(fmt.Sprint(name, hosts), func(t *testing.T) {
				comms := commtest.NewOn(t, hosts, commtest.Host, func(_ int, cfg *goccl.Config) {
					cfg.Timeout, cfg.Check = 5*time.Second, name == "checked"
				})
				if wait.prepare != nil {
					each(t, comms, wait.prepare)
				}
				done := make(chan error)
				go func() { done <- errors.Join(wait.run(comms[1]), comms[1].Synchronize(context.Background(), nil)) }()
				time.Sleep(20 * time.Millisecond)
				comms[0].Abort(&goccl.Error{Op: "communicator", Rank: 0, Peer: 2, Err: goccl.ErrPeerDead})
				want(t, name, 1, <-done, goccl.ErrPeerDead, 2)
			})
		}
	}
}
