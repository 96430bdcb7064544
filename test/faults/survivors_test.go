package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// hooked is a Bootstrap whose AllGather calls after with its result, and whose Sub calls before; its Subs are hooked,
// too.
type hooked struct {
	bootstrap.Bootstrap
	before func(ctx context.Context, ranks []int) error
	after  func(err error) error
}

func (h hooked) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	all, err := h.Bootstrap.AllGather(ctx, data)
	return all, h.after(err)
}

func (h hooked) Sub(ctx context.Context, ranks []int, space int) (bootstrap.Bootstrap, error) {
	if err := h.before(ctx, ranks); err != nil {
		return nil, err
	}
	b, err := h.Bootstrap.Sub(ctx, ranks, space)
	return hooked{b, h.before, h.after}, err
}

// family is a communicator whose ranks are in one process; some of them may be killed.
type family struct {
	local *bootstrap.Local
	comms []*goccl.Comm
}

// newFamily makes one; hook, if there is one, is called for each rank's Bootstrap.
func newFamily(t *testing.T, n int, timeout time.Duration,
	hook func(r int, b bootstrap.Bootstrap) bootstrap.Bootstrap) *family {
	t.Helper()
	f := &family{local: bootstrap.NewLocal(n), comms: make([]*goccl.Comm, n)}
	devs := make([]device.Device, n)
	if err := commtest.Each(n, func(r int) (err error) {
		b := f.local.Ranks[r]
		if hook != nil {
			b = hook(r, b)
		}
		if devs[r], err = commtest.Host(r); err == nil {
			f.comms[r], err = goccl.NewComm(context.Background(),
				goccl.Config{Bootstrap: b, Device: devs[r], Timeout: timeout, OpTimeout: 20 * time.Second})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for r := range n {
			_, _, _ = f.comms[r].Close(), f.local.Ranks[r].Close(), devs[r].Close()
		}
	})
	return f
}

// blamesRank returns nil if err blames peer, in the numbers of a communicator in which this rank is rank.
func blamesRank(err error, rank, peer int) error {
	var ge *goccl.Error
	if !errors.As(err, &ge) || ge.Rank != rank || ge.Peer != peer {
		return fmt.Errorf("want an error of rank %d that blames rank %d, got %w", rank, peer, err)
	}
	return nil
}

// Rank 0 dies in a Split. Rank 1 has received its data and joins the others of its color; the others have not, and call
// Shrink. The two must not form one communicator. Rank 1 must get an error at once that names the dead rank in the
// parent's numbers.
func TestSplitAndShrinkNeverMeet(t *testing.T) {
	commtest.NoLeak(t)
	const n = 4
	var splitting atomic.Bool
	var family *family
	die := func() { // called twice; the first call counts
		if splitting.Swap(false) {
			family.local.Kill(0)
		}
	}
	shrinking := make(chan struct{}, n)
	family = newFamily(t, n, time.Hour, func(r int, b bootstrap.Bootstrap) bootstrap.Bootstrap {
		return hooked{b, func(ctx context.Context, ranks []int) error {
			if r == 1 && splitting.Load() { // all other ranks are in Shrink before this rank joins, unless the death prevents it
				for range 2 {
					<-shrinking
				}
			}
			return nil
		}, func(err error) error {
			if err == nil && r > 1 && splitting.Load() {
				return fmt.Errorf("%w: rank 0, in the test", bootstrap.ErrPeerDead)
			}
			return err
		}}
	})
	splitting.Store(true)
	small := make([]*goccl.Comm, n)
	if err := commtest.Each(n, func(r int) error {
		c := family.comms[r]
		sub, err := c.Split(context.Background(), min(r, 1), 0)
		if r == 0 {
			if sub != nil {
				_ = sub.Close()
			}
			return nil
		}
		if r > 1 {
			if err == nil {
				return fmt.Errorf("rank %d split", r)
			}
			go func() { time.Sleep(50 * time.Millisecond); shrinking <- struct{}{} }()
			exclude := []int{0}
			small[r], err = c.Shrink(context.Background(), exclude, true)
			return err
		}
		if err == nil {
			_ = sub.Close()
			return errors.New("the split of rank 1 came out well: it has met a shrink")
		}
		var ge *goccl.Error
		if !errors.As(err, &ge) || ge.Rank != 1 || ge.Op != "split" {
			return fmt.Errorf("rank 1: %w", err)
		}
		die()
		<-commtest.Failed(c)
		small[1], err = c.Shrink(context.Background(), nil, true) // it has got the error
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range small[1:] {
		defer func() { _ = c.Close() }()
	}
	if err := conformance.Run(small[1:], commtest.SomeCase); err != nil {
		t.Error(err)
	}
}

// If the parent knows of a death, a Split that other ranks therefore do not join ends at once, with an error that names
// the dead rank by the parent's number.
func TestSplitEndsWithADeath(t *testing.T) {
	commtest.NoLeak(t)
	for _, victim := range []int{0, 2} { // outside and inside of the new communicator, in which rank 1 is rank 0
		joining := make(chan struct{})
		var armed atomic.Bool
		f := newFamily(t, 4, time.Hour, func(r int, b bootstrap.Bootstrap) bootstrap.Bootstrap {
			return hooked{b, func(ctx context.Context, _ []int) error {
				if armed.Load() && r > 1 { // it does not join, like a rank whose Split has failed
					<-joining
					return errors.New("not I")
				}
				return nil
			}, func(err error) error { return err }}
		})
		armed.Store(true)
		time.AfterFunc(100*time.Millisecond, func() { f.local.Kill(victim) })
		if err := commtest.Each(4, func(r int) error {
			sub, err := f.comms[r].Split(context.Background(), min(r, 1), 0)
			if sub != nil {
				_ = sub.Close()
			}
			if r != 1 {
				return nil
			}
			close(joining)
			if !errors.Is(err, goccl.ErrPeerDead) {
				t.Errorf("the split: %v", err)
			}
			return blamesRank(err, 1, victim)
		}); err != nil {
			t.Error(err)
		}
	}
}

// A peer in Shrink does not join a Split: Split fails at once with an error that names both operations, and then the
// ranks can Shrink together.
func TestSplitLearnsOfAShrink(t *testing.T) {
	commtest.NoLeak(t)
	f := newFamily(t, 3, time.Hour, nil)
	small := make([]*goccl.Comm, 2)
	if err := commtest.Each(2, func(r int) (err error) {
		if r == 0 {
			_, err := f.comms[0].Split(context.Background(), 0, 0)
			if !errors.Is(err, goccl.ErrMismatch) {
				return fmt.Errorf("the split of rank 0: %w", err)
			}
			if err := blamesRank(err, 0, 1); err != nil {
				return err
			}
		}
		small[r], err = f.comms[r].Shrink(context.Background(), []int{2}, false)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := conformance.Run(small, commtest.SomeCase); err != nil {
		t.Error(err)
	}
	for _, c := range small {
		_ = c.Close()
	}
	// The third rank was excluded, although it is alive.
	_, err := f.comms[2].Shrink(context.Background(), []int{0}, false)
	if !errors.Is(err, goccl.ErrAborted) {
		t.Errorf("the rank that was left out: %v", err)
	}
}

// Ranks die while the others shrink with different lists. Either all remaining ranks get the same communicator, or each
// gets an error that names a rank; then they repeat, until they have one.
func TestShrinkAgrees(t *testing.T) {
	commtest.NoLeak(t)
	rounds := 40
	if os.Getenv("GOCCL_FULL") != "" {
		rounds = 400
	}
	for seed := range rounds {
		shrinkOnce(t, rand.New(rand.NewPCG(uint64(seed), 2)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func shrinkOnce(t *testing.T, rng *rand.Rand) {
	n := 3 + rng.IntN(4)
	f := newFamily(t, n, time.Minute, nil)
	order := rng.Perm(n)
	deaths := 1 + rng.IntN(n-2)
	first, more, survivors := order[0], order[1:deaths], order[deaths:]
	slices.Sort(survivors)
	lists := make([][]int, n)
	for _, r := range order[1:] {
		if rng.IntN(2) == 0 {
			lists[r] = []int{first}
		}
	}
	f.local.Kill(first)
	for _, r := range order[1:] { // a rank without a list must already know of a failure
		<-commtest.Failed(f.comms[r])
	}
	for _, v := range more {
		after := time.Duration(rng.IntN(4000)) * time.Microsecond
		time.AfterFunc(after, func() { f.local.Kill(v) })
	}
	small := make([]*goccl.Comm, n)
	if err := commtest.Each(len(order)-1, func(i int) error {
		r := order[i+1]
		for tries := 1; ; tries++ {
			c, err := f.comms[r].Shrink(context.Background(), lists[r], true)
			if err == nil {
				small[r] = c
				return nil
			}
			if !slices.Contains(survivors, r) { // its errors do not matter
				return nil
			}
			var ge *goccl.Error
			if !errors.As(err, &ge) || ge.Peer < 0 || ge.Rank != r {
				return fmt.Errorf("rank %d: the error names nobody: %w", r, err)
			}
			if tries == 1000 {
				return fmt.Errorf("rank %d shrinks in vain: %w", r, err)
			}
		}
	}); err != nil {
		t.Error(err)
	}
	for _, c := range small {
		if c != nil {
			defer func() { _ = c.Close() }()
		}
	}
	var got []*goccl.Comm
	for _, r := range survivors {
		c := small[r]
		if c == nil {
			continue
		}
		got = append(got, c)
		if c.WorldSize() != small[survivors[0]].WorldSize() {
			t.Errorf("rank %d has a communicator of %d ranks, rank %d one of %d", r, c.WorldSize(), survivors[0],
				small[survivors[0]].WorldSize())
		}
	}
	if !t.Failed() && got[0].WorldSize() == len(got) { // otherwise another rank has died since
		if err := conformance.Run(got, commtest.SomeCase); err != nil {
			t.Error(err)
		}
	}
}

// Two communicators on one Bootstrap, and the Bootstrap's owner: all get the report of a death.
func TestDeathInEveryCommunicator(t *testing.T) {
	commtest.NoLeak(t)
	const n = 3
	job := bootstrap.NewLocal(n)
	var comms [n][2]*goccl.Comm
	var devs [n]device.Device
	if err := commtest.Each(n, func(r int) (err error) {
		if devs[r], err = commtest.Host(r); err != nil {
			return err
		}
		for i := range comms[r] {
			if comms[r][i], err = goccl.NewComm(context.Background(),
				goccl.Config{Bootstrap: job.Ranks[r], Device: devs[r]}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	own := job.Ranks[0].Failures()
	job.Kill(2)
	for i := range comms[0] {
		if err := commtest.Blames(comms[0][i].Barrier(nil), goccl.ErrPeerDead, "barrier", 2); err != nil {
			var ge *goccl.Error // or before it was enqueued
			if err2 := comms[0][i].AsyncError(); !errors.As(err2, &ge) || ge.Peer != 2 {
				t.Error(i, err, err2)
			}
		}
	}
	select {
	case f := <-own:
		if f.Rank != 2 {
			t.Errorf("%+v", f)
		}
	case <-time.After(30 * time.Second):
		t.Error("the Bootstrap's own subscriber hears nothing")
	}
	for r := range n {
		_, _ = comms[r][0].Close(), comms[r][1].Close()
		_, _ = job.Ranks[r].Close(), devs[r].Close()
	}
}
