package verdict_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/commtest"
)

// splits is a rank that calls Split, which the victim does not, because it is stopped.
func splits(k *commtest.Process) error {
	return with(k, func(r *rank) error {
		k.Say("running", nil)
		if k.Rank == k.Victim {
			return errors.Join(k.Boot.Barrier(context.Background()), k.Boot.Barrier(context.Background()))
		}
		_, err := r.c.Split(context.Background(), 0, k.Rank)
		var ge *goccl.Error
		if !errors.Is(err, goccl.ErrTimeout) || !errors.As(err, &ge) || ge.Peer != k.Victim || ge.Verdict == nil {
			return fmt.Errorf("want a timeout that names rank %d, with a verdict: %w", k.Victim, err)
		}
		r.say(ge.Verdict)
		return errors.Join(k.Boot.Barrier(context.Background()), k.Boot.Barrier(context.Background()))
	})
}

// A rank that is stopped while others call Split is named when OpTimeout has passed: Config.Timeout, which also bounds
// how long a communicator is made, is 30 s and more.
func TestARankThatIsStoppedWhileOthersSplit(t *testing.T) {
	t.Parallel()
	j := commtest.Start(t, commtest.Task{Do: "splits", Size: 3, Victim: 1, OpTimeout: time.Second})
	j.Await("running", commtest.Everyone(3), time.Minute)
	begin := time.Now()
	j.Signal(1, syscall.SIGSTOP)
	for r, v := range verdicts(t, j, "verdict", []int{0, 2}) {
		check(t, v, r, 1, fault.VerdictStopped, "rank 1 is stopped")
	}
	t.Logf("named %v after the stop", time.Since(begin).Round(10*time.Millisecond))
	j.Signal(1, syscall.SIGCONT)
	j.Await("done", commtest.Everyone(3), time.Minute)
}
