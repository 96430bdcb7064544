package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
)

// decoding is a loop of steps, each an all-reduce that is checked. When a step fails, the ranks that are left shrink
// the communicator. "stepped K" is the first step after the death of K ranks.
func decoding(k *commtest.Process) error {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	u, err := commtest.NewSums(c)
	if err != nil {
		return err
	}
	for dead := 0; ; {
		if err = u.Once(1); err == nil {
			k.Say(fmt.Sprint("stepped ", dead), nil)
		}
		if dead == len(k.Victims) {
			return errors.Join(err, c.Finalize(context.Background()), u.Close(), c.Close())
		}
		for err == nil {
			err = u.Once(1)
		}
		var failure *goccl.Error
		if !errors.As(err, &failure) || !errors.Is(err, goccl.ErrPeerDead) {
			return fmt.Errorf("after %d deaths: %w", dead, err)
		}
		small, err := c.Shrink(context.Background(), nil, true)
		if err != nil {
			return err
		}
		v, err := commtest.NewSums(small)
		if err := errors.Join(err, u.Close(), c.Close()); err != nil {
			return err
		}
		c, u, dead = small, v, dead+1
	}
}

// killsVariable is the number of kills of TestKillToNextStep.
const killsVariable = "GOCCL_TEST_KILLS"

// toNextStep kills ranks of four one after the other, down to two, and reports the times from a kill to the first step
// that all others have completed.
func toNextStep(t *testing.T, tk commtest.Task) {
	t.Helper()
	kills := 4
	if s := setting.Get(killsVariable); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil || kills < 1 {
			t.Fatalf("%s=%s is no number of kills", killsVariable, s)
		}
	}
	var took []time.Duration
	for len(took) < kills {
		tk.Do, tk.Size, tk.OpTimeout = "decoding", 4, 20*time.Second
		tk.Victims = rand.Perm(tk.Size)[:2]
		left := commtest.Everyone(tk.Size)
		j := commtest.Start(t, tk)
		j.Await("stepped 0", left, time.Minute)
		for i, victim := range tk.Victims {
			time.Sleep(rand.N(20 * time.Millisecond)) // into any phase of a step
			killed := j.Signal(victim, syscall.SIGKILL)
			left = slices.DeleteFunc(left, func(r int) bool { return r == victim })
			worst := time.Duration(0)
			for _, r := range j.Await(fmt.Sprint("stepped ", i+1), left, time.Minute) {
				worst = max(worst, time.Unix(0, r.At).Sub(killed))
			}
			took = append(took, worst)
		}
		j.Await("done", left, time.Minute)
		j.Close()
	}
	slices.Sort(took)
	t.Logf("%d kills: the next step has ended after %v in the median, %v at worst", len(took), took[len(took)/2],
		took[len(took)-1])
}

func TestKillToNextStep(t *testing.T) { toNextStep(t, commtest.Task{}) }

func TestGPUKillToNextStep(t *testing.T) {
	commtest.GPUs(t)
	toNextStep(t, commtest.Task{CUDA: true})
}
