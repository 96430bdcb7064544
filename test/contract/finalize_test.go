package contract_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
)

// late is how much later than the first rank the other ranks leave.
const late = 1500 * time.Millisecond

// leave is a job that ends well: all-reduces, and then every rank leaves at its own time. The task defines what rank 0
// does.
func leave(k *commtest.Process) error {
	c, u, err := k.Sums(k.Boot, 3)
	if err != nil {
		return err
	}
	if k.Leave == "abort" || k.Leave == "die" { // when the work of all is done
		if err := k.Boot.Barrier(context.Background()); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if k.Rank == 0 {
		defer k.Say("running", nil)
		switch k.Leave {
		case "abort":
			c.Abort(nil)
			return errors.Join(u.Close(), c.Close())
		case "die":
			k.Say("running", nil)
			time.Sleep(time.Minute) // the test kills it
		case "exit":
			if err := c.Finalize(ctx); err != nil {
				return err
			}
			k.Say("running", nil)
			k.Say("done", nil)
			os.Exit(0)
		}
		return errors.Join(c.Finalize(ctx), u.Close(), c.Close())
	}
	k.Say("running", nil)
	time.Sleep(late)
	if err := c.AsyncError(); (k.Leave == "close" || k.Leave == "exit") && err != nil {
		return err
	}
	if err := c.Finalize(ctx); err != nil {
		return err
	}
	return errors.Join(u.Close(), c.Close())
}

// A rank that has finalized may close, exit or die long before the others, and a rank may abort or die after its peers'
// work is done. On the other ranks, whose work is done too, Finalize succeeds. TestKill tests ranks whose work is not
// done.
func TestLateFinalize(t *testing.T) {
	for _, how := range []string{"close", "exit", "abort", "die"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			commtest.OnDevices(t, func(t *testing.T, tk commtest.Task) {
				tk.Do, tk.Leave, tk.Size = "leave", how, min(tk.Size, 3)
				if how == "die" {
					tk.Victim = 0
				}
				j := commtest.Start(t, tk)
				if how == "die" {
					j.Await("running", commtest.Everyone(tk.Size), time.Minute) // nobody is in the barrier any more
					j.Signal(tk.Victim, syscall.SIGKILL)
				}
				j.Await("done", commtest.Others(tk.Size, tk.Victim), time.Minute)
			})
		})
	}
}

// Finalize waits for enqueued work, and rejects later collectives.
func TestFinalizeWaitsForItsOwnWork(t *testing.T) {
	commtest.OnKinds(t, 2, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		comms := commtest.New(t, n, open, nil)
		if err := commtest.Each(n, func(r int) error {
			p := commtest.Scratch(t, comms[r])
			s, err := comms[r].Device().NewStream()
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			if r == 0 && n > 1 {
				time.Sleep(50 * time.Millisecond)
			}
			for range 20 {
				if err := comms[r].AllReduce(p, p, 1000, datatype.Float32, datatype.Sum, s); err != nil {
					return err
				}
			}
			if err := comms[r].Finalize(context.Background()); err != nil {
				return err
			}
			ctx, stop := context.WithCancel(context.Background())
			stop()
			if err := s.Synchronize(ctx); err != nil { // no work is left
				return err
			}
			if err := comms[r].AllReduce(p, p, 1, datatype.Int8, datatype.Sum, s); !errors.Is(err, goccl.ErrInvalidUsage) {
				t.Errorf("a collective after Finalize: %v", err)
			}
			return errors.Join(comms[r].Finalize(context.Background()), comms[r].Close())
		}); err != nil {
			t.Error(err)
		}
	})
}

// The work of a rank waits for a peer that finalizes, aborts or closes instead: the work ends with an error that blames
// the peer, and Finalize returns nil. Finalize also ends at the deadline of its context.
func TestFinalizeOfWorkThatAPeerLeft(t *testing.T) {
	commtest.NoLeak(t)
	for name, leave := range map[string]func(*goccl.Comm) error{
		"finalizes": func(c *goccl.Comm) error { return c.Finalize(context.Background()) },
		"aborts":    func(c *goccl.Comm) error { c.Abort(nil); return nil },
		"closes":    (*goccl.Comm).Close,
	} {
		t.Run(name, func(t *testing.T) {
			comms := commtest.New(t, 2, commtest.Host, nil)
			p := commtest.Scratch(t, comms[0])
			s, err := comms[0].Device().NewStream()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			if err := comms[0].AllReduce(p, p, 10, datatype.Int32, datatype.Sum, s); err != nil {
				t.Fatal(err)
			}
			short, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer stop()
			if err := comms[0].Finalize(short); !errors.Is(err, goccl.ErrTimeout) {
				t.Errorf("Finalize with a deadline, while its work waits: %v", err)
			}
			if err := leave(comms[1]); err != nil {
				t.Error(err)
			}
			ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
			defer stop()
			if err := comms[0].Finalize(ctx); err != nil {
				t.Errorf("Finalize: %v", err)
			}
			var ge *goccl.Error
			if err := s.Synchronize(ctx); !errors.Is(err, goccl.ErrAborted) || !errors.As(err, &ge) || ge.Peer != 1 {
				t.Errorf("the work: %v", err)
			}
		})
	}
}

// The name of a communicator is in the errors of its calls, of its work and of its peers' deaths.
func TestNameIsInErrors(t *testing.T) {
	commtest.OnKinds(t, 2, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		comms := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) {
			cfg.Name, cfg.OpTimeout = "tensor",
				100*time.Millisecond
		})
		c, p := comms[0], commtest.Scratch(t, comms[0])
		_, split := c.Split(context.Background(), -7, 0)
		_, shrink := c.Shrink(context.Background(), []int{99}, false)
		failures := map[string]error{"split": split, "shrink": shrink,
			"argument": c.Broadcast(p, p, -1, datatype.Int8, 0, nil)}
		if n > 1 {
			failures["alone"] = c.AllReduce(p, p, 8, datatype.Int8, datatype.Sum, nil)
			if failures["alone"] == nil {
				failures["alone"] = c.Drain(context.Background())
			}
		}
		failures["finalize"] = errors.Join(c.Close(), c.Finalize(context.Background()))
		for what, err := range failures {
			var ge *goccl.Error
			if !errors.As(err, &ge) || ge.Comm != "tensor" || !strings.Contains(err.Error(), `of "tensor"`) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// A request on a synchronous stream that failed in its call has ended: Finalize returns its error and waits for
// nothing.
func TestFinalizeAfterAFailedCall(t *testing.T) {
	comms := commtest.New(t, 2, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 30 * time.Millisecond })
	p := commtest.Scratch(t, comms[0])
	if err := comms[0].AllReduce(p, p, 1, datatype.Int8, datatype.Sum, nil); !errors.Is(err, goccl.ErrTimeout) {
		t.Fatalf("an all-reduce without its peer: %v", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	if err := comms[0].Finalize(ctx); !errors.Is(err, goccl.ErrTimeout) || ctx.Err() != nil {
		t.Errorf("Finalize: %v, its context: %v", err, ctx.Err())
	}
}
