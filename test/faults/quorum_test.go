package faults_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// quorate makes a family of n ranks; change changes their Config.
func quorate(t *testing.T, n int, change func(r int, cfg *goccl.Config)) (*family, error) {
	t.Helper()
	f := &family{local: bootstrap.NewLocal(n), comms: make([]*goccl.Comm, n)}
	devs := make([]device.Device, n)
	err := commtest.Each(n, func(r int) (err error) {
		if devs[r], err = commtest.Host(r); err != nil {
			return err
		}
		cfg := goccl.Config{Bootstrap: f.local.Ranks[r], Device: devs[r], Timeout: 20 * time.Second}
		change(r, &cfg)
		f.comms[r], err = goccl.NewComm(context.Background(), cfg)
		return err
	})
	t.Cleanup(func() {
		for r := range n {
			if f.comms[r] != nil {
				_ = f.comms[r].Close()
			}
			_, _ = f.local.Ranks[r].Close(), devs[r].Close()
		}
	})
	return f, err
}

// shrink shrinks on some ranks, after they know of a failure. It returns their communicators, or their errors.
func (f *family) shrink(ranks ...int) (small []*goccl.Comm, errs []error) {
	small, errs = make([]*goccl.Comm, len(ranks)), make([]error, len(ranks))
	_ = commtest.Each(len(ranks), func(i int) error {
		<-commtest.Failed(f.comms[ranks[i]])
		small[i], errs[i] = f.comms[ranks[i]].Shrink(context.Background(), nil, true)
		return nil
	})
	return small, errs
}

// allRefused checks that each of these errors is a rank's ErrNoQuorum that has the text why.
func allRefused(t *testing.T, errs []error, why string) {
	t.Helper()
	for i, err := range errs {
		var ge *goccl.Error
		if !errors.Is(err, goccl.ErrNoQuorum) || !errors.As(err, &ge) || ge.Op != "shrink" ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("the %d. rank: %v", i+1, err)
		}
	}
}

// The named rank is a rank of the job: the rule holds for communicators that were split and shrunk, in which it has
// another number.
func TestQuorumOfANamedRank(t *testing.T) {
	commtest.NoLeak(t)
	const n = 5
	f, err := quorate(t, n, func(_ int, cfg *goccl.Config) { cfg.Quorum = "rank 3" })
	if err != nil {
		t.Fatal(err)
	}
	whole := slices.Clone(f.comms)
	defer func() {
		for _, c := range whole {
			_ = c.Close()
		}
	}()
	if err := commtest.Each(n, func(r int) (err error) {
		f.comms[r], err = whole[r].Split(context.Background(), min(r, 1), 0) // ranks 1 to 4
		return err
	}); err != nil {
		t.Fatal(err)
	}
	f.local.Kill(4)
	small, errs := f.shrink(1, 2, 3)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if err := conformance.Run(small, commtest.SomeCase); err != nil {
		t.Error(err)
	}
	f.local.Kill(3)
	again := &family{local: f.local, comms: small}
	_, errs = again.shrink(0, 1)
	allRefused(t, errs, `GOCCL_QUORUM is "rank 3"`)
	for _, c := range small {
		_ = c.Close()
	}
}

// Every remaining rank is asked, with the ranks that are left. If one is against it, nobody goes on, and the others'
// errors name it. A vote that does not return ends with the deadline.
func TestVote(t *testing.T) {
	commtest.NoLeak(t)
	no := errors.New("the store says no")
	hang := make(chan struct{})
	defer close(hang)
	for what, c := range map[string]struct {
		vote  func(r int) error
		wants []string
	}{
		"for": {func(int) error { return nil }, nil},
		"against": {func(r int) error { return map[int]error{1: no}[r] },
			[]string{"rank 1 is against", "says no", "rank 1 is against"}},
		"one": {func(int) error { return no }, []string{"rank 1 is against", "says no", "rank 1 is against"}},
		"late": {func(r int) error {
			if r == 2 {
				<-hang
			}
			return nil
		}, []string{"", "", "deadline"}},
	} {
		t.Run(what, func(t *testing.T) {
			var asked atomic.Int32
			f, err := quorate(t, 4, func(r int, cfg *goccl.Config) {
				if what == "late" {
					cfg.Timeout = 2 * time.Second
				}
				if what == "one" && r != 1 { // the others have no vote, and wait for rank 1's
					return
				}
				cfg.Vote = func(_ context.Context, id uint64, left []int) error {
					asked.Add(1)
					if id == 0 || !slices.Equal(left, []int{0, 1, 2}) {
						t.Errorf("rank %d votes on %v of %x", r, left, id)
					}
					return c.vote(r)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			f.local.Kill(3)
			small, errs := f.shrink(0, 1, 2)
			if n := asked.Load(); n != 3 && what != "one" || n != 1 && what == "one" {
				t.Errorf("%d votes", asked.Load())
			}
			for i, want := range c.wants {
				if want != "" {
					allRefused(t, errs[i:i+1], want)
				} else if !errors.Is(errs[i], goccl.ErrTimeout) && !errors.Is(errs[i], goccl.ErrAborted) {
					t.Errorf("rank %d: %v", i, errs[i])
				}
			}
			if c.wants == nil {
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				if err := conformance.Run(small, commtest.SomeCase); err != nil {
					t.Error(err)
				}
				for _, c := range small {
					_ = c.Close()
				}
			}
		})
	}
}

// Ranks with different rules make no communicator, and a rule that does not exist is refused.
func TestQuorumIsTheSameOnAllRanks(t *testing.T) {
	commtest.NoLeak(t)
	_, err := quorate(t, 3, func(r int, cfg *goccl.Config) { cfg.Quorum = []string{"", "off", "majority"}[r] })
	if !errors.Is(err, goccl.ErrMismatch) || !strings.Contains(err.Error(), "GOCCL_QUORUM") {
		t.Error(err)
	}
	for _, bad := range []string{"most", "rank", "rank -1", "rank x"} {
		_, err := quorate(t, 1, func(_ int, cfg *goccl.Config) { cfg.Quorum = bad })
		if !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(err.Error(), "majority") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
