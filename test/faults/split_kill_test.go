package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
)

// A scattered is a Bootstrap that counts the steps of all ranks, waits a random time around each of them, and learns
// of deaths late. At the step of number at the victim dies.
type scattered struct {
	bootstrap.Bootstrap
	steps *steps
}

// steps are the steps of all ranks of one job.
type steps struct {
	mu    sync.Mutex
	rng   *rand.Rand
	done  atomic.Int32
	at    atomic.Int32 // 0: no rank dies
	death func()
}

// next is one step. It returns an error if ctx ends meanwhile, as the call that it delays would.
func (s *steps) next(ctx context.Context) error {
	if at := s.at.Load(); at > 0 && s.done.Add(1) == at {
		go s.death() // while the step continues
	}
	return s.pause(ctx)
}

func (s *steps) pause(ctx context.Context) error {
	if s.at.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	d := time.Duration(s.rng.Int64N(int64(time.Millisecond)))
	if s.rng.IntN(4) == 0 {
		d *= 10
	}
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func (s scattered) Sub(ctx context.Context, ranks []int, space int) (bootstrap.Bootstrap, error) {
	if err := s.steps.next(ctx); err != nil {
		return nil, err
	}
	b, err := s.Bootstrap.Sub(ctx, ranks, space)
	if err != nil {
		return nil, err
	}
	if err = s.steps.next(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return scattered{b, s.steps}, nil
}

func (s scattered) AllGather(ctx context.Context, data []byte) (all [][]byte, err error) {
	if err = s.steps.next(ctx); err == nil {
		if all, err = s.Bootstrap.AllGather(ctx, data); err == nil {
			err = s.steps.next(ctx)
		}
	}
	return all, err
}

func (s scattered) Barrier(ctx context.Context) (err error) {
	if err = s.steps.next(ctx); err == nil {
		if err = s.Bootstrap.Barrier(ctx); err == nil {
			err = s.steps.next(ctx)
		}
	}
	return err
}

func (s scattered) Failures() <-chan bootstrap.PeerFailure {
	early, late := s.Bootstrap.Failures(), make(chan bootstrap.PeerFailure, s.WorldSize())
	go func() {
		defer close(late)
		for f := range early {
			_ = s.steps.pause(context.Background())
			late <- f
		}
	}()
	return late
}

// splitting splits until the victim's process dies, at a random time, and then makes a communicator of the survivors.
// Split fails on all of them or on none: the communicator without the victim always works. No wait has a deadline.
func splitting(k *commtest.Process) error {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	if err := k.Boot.Barrier(context.Background()); err != nil {
		return err
	}
	color := 1
	if k.Rank == k.Victim {
		color = 0
		at := time.Duration(rand.New(rand.NewPCG(k.Seed, 5)).IntN(20000)) * time.Microsecond
		time.AfterFunc(at, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	for {
		sub, err := c.Split(context.Background(), color, 0)
		if err != nil {
			k.Say("error", err)
			break
		}
		u, err := commtest.NewSums(sub)
		if err == nil {
			err = u.Once(1)
		}
		if err = errors.Join(err, u.Close(), sub.Close()); err != nil {
			return err
		}
	}
	small, err := c.Shrink(context.Background(), nil, true)
	if err != nil {
		return err
	}
	u, err := commtest.NewSums(small)
	if err == nil {
		err = u.Once(1)
	}
	return errors.Join(err, u.Close(), small.Close(), c.Close())
}

func TestSplitKilledProcess(t *testing.T) {
	t.Parallel()
	jobs := 3
	if os.Getenv("GOCCL_FULL") != "" {
		jobs = 150
	}
	for range jobs {
		tk := commtest.Task{Do: "splitting", Size: 4, Victim: 0, OpTimeout: -1, Seed: rand.Uint64()}
		j := commtest.Start(t, tk)
		survivors := commtest.Others(tk.Size, tk.Victim)
		for r, e := range j.Await("error", survivors, time.Minute) {
			if e.Peer != tk.Victim || e.Kind != goccl.ErrPeerDead.Error() {
				t.Errorf("rank %d: %+v", r, e)
			}
		}
		j.Await("done", survivors, time.Minute)
		j.Clean()
	}
}

// A rank dies at a random step of a Split. The other ranks of each color all get the communicator, or all get an error
// that names the dead rank; a communicator without the dead rank works. No rank waits for one that has left.
func TestSplitKilledAnywhere(t *testing.T) {
	rounds := 20
	if os.Getenv("GOCCL_FULL") != "" {
		rounds = 1000
	}
	for _, hosts := range [][]int{{0, 0, 0, 0}, {0, 0, 1, 1}} {
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			commtest.NoLeak(t)
			var split int
			for seed := range rounds {
				split += splitKilled(t, hosts, uint64(seed))
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			t.Logf("%d of %d ranks that stayed had a communicator", split, rounds*(len(hosts)-1))
		})
	}
}

// splitKilled returns how many ranks got a communicator.
func splitKilled(t *testing.T, hosts []int, seed uint64) (split int) {
	rng := rand.New(rand.NewPCG(seed, 4))
	n := len(hosts)
	victim, colors := rng.IntN(n), make([]int, n)
	for r := range colors {
		colors[r] = rng.IntN(2)
	}
	if rng.IntN(2) == 0 { // most often the others are together
		for r := range colors {
			colors[r] = 1
		}
		colors[victim] = rng.IntN(2)
	}
	local := bootstrap.NewLocalHosts(hosts)
	s := &steps{rng: rng, death: sync.OnceFunc(func() { local.Kill(victim) })}
	comms, devs := make([]*goccl.Comm, n), make([]device.Device, n)
	defer func() {
		for r := range n {
			_, _, _ = comms[r].Close(), local.Ranks[r].Close(), devs[r].Close()
		}
	}()
	if err := commtest.Each(n, func(r int) (err error) {
		if devs[r], err = commtest.Host(r); err == nil {
			comms[r], err = goccl.NewComm(context.Background(), goccl.Config{Bootstrap: scattered{local.Ranks[r], s},
				Device: devs[r], Timeout: 2 * time.Minute, OpTimeout: -1})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.at.Store(int32(1 + rng.IntN(60)))
	s.mu.Unlock()
	subs := make([]*goccl.Comm, n)
	err := commtest.Each(n, func(r int) (err error) {
		subs[r], err = comms[r].Split(context.Background(), colors[r], 0)
		if r == victim || err == nil {
			return nil
		}
		if !errors.Is(err, goccl.ErrPeerDead) {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		return blamesRank(err, r, victim)
	})
	defer func() {
		for _, c := range subs {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	for r, c := range subs {
		if r == victim || colors[r] == colors[victim] {
			continue
		}
		if c != nil {
			split++
		}
		for q := range r {
			if colors[q] == colors[r] && (subs[q] == nil) != (c == nil) {
				err = errors.Join(err, fmt.Errorf("ranks %d and %d differ on whether they have a communicator", q, r))
			}
		}
	}
	s.death() // if there were fewer steps
	if err == nil {
		err = useSplit(subs, colors, victim)
	}
	if err != nil {
		t.Errorf("colors %v, victim %d: %v", colors, victim, err)
	}
	return split
}

// useSplit uses the communicators of a Split: those without the victim work, the others end.
func useSplit(subs []*goccl.Comm, colors []int, victim int) error {
	return commtest.Each(len(subs), func(r int) error {
		if subs[r] == nil || r == victim {
			return nil
		}
		u, err := commtest.NewSums(subs[r])
		if err != nil {
			return err
		}
		defer func() { _ = u.Close() }()
		defer time.AfterFunc(50*time.Second, func() { // a hang
			subs[r].Abort(fmt.Errorf("rank %d waits in the communicator of color %d", r, colors[r]))
		}).Stop()
		err = u.Once(1)
		if colors[r] == colors[victim] {
			if err == nil {
				<-commtest.Failed(subs[r])
			}
			return nil
		}
		return err
	})
}
