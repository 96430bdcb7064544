package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/testutil"
)

// traffic runs all-reduces until a rank dies, and then uses the survivors' shrunk communicator.
func traffic(k *commtest.Process) error {
	c, u, err := k.Sums(k.Boot, 0)
	if err != nil {
		return err
	}
	for i := 0; err == nil; i++ {
		if i == 5 {
			k.Say("running", nil)
		}
		err = u.Once(3)
	}
	return survive(k, c, u, err)
}

// wait is an all-reduce that the victim never joins.
func wait(k *commtest.Process) error {
	c, u, err := k.Sums(k.Boot, 1)
	if err != nil {
		return err
	}
	if k.Rank == k.Victim {
		time.Sleep(100 * time.Millisecond)
		k.Say("running", nil)
		time.Sleep(time.Minute)
	}
	k.Say("running", nil)
	return survive(k, c, u, u.Once(1))
}

// survive reports the error, continues with the survivors and checks that nothing is left over.
func survive(k *commtest.Process, c *goccl.Comm, u *commtest.Sums, err error) error {
	k.Say("error", err)
	if k.Exit {
		os.Exit(0)
	}
	if err == nil {
		return errors.New("no error")
	}
	if k.Rank == k.Victim { // stopped and continued: the others have given it up
		return errors.Join(u.Close(), c.Close())
	}
	if c.AsyncError() == nil {
		return errors.New("an operation failed, and AsyncError is nil")
	}
	var again *goccl.Error
	if err := u.Once(1); !errors.As(err, &again) {
		return fmt.Errorf("the failed communicator answers %v", err)
	}
	small, err := c.Shrink(context.Background(), []int{k.Victim}, true)
	if err != nil {
		return err
	}
	v, err := commtest.NewSums(small)
	if err != nil {
		return err
	}
	for range 3 {
		if err := v.Once(2); err != nil {
			return fmt.Errorf("shrunk: %w", err)
		}
	}
	k.Say("shrunk", nil)
	return errors.Join(small.Finalize(context.Background()), v.Close(), u.Close(), small.Close(), c.Close())
}

// mortal is a Bootstrap whose process dies at the at-th call that set-up makes on it.
type mortal struct {
	bootstrap.Bootstrap
	rank *commtest.Process
	at   int
	done *atomic.Int32
}

func (m mortal) step() {
	if int(m.done.Add(1)) == m.at {
		m.rank.Say("dying", nil)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (m mortal) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	m.step()
	return m.Bootstrap.AllGather(ctx, data)
}

func (m mortal) Barrier(ctx context.Context) error {
	m.step()
	return m.Bootstrap.Barrier(ctx)
}

func (m mortal) Sub(ctx context.Context, ranks []int, space int) (bootstrap.Bootstrap, error) {
	m.step()
	b, err := m.Bootstrap.Sub(ctx, ranks, space)
	return mortal{b, m.rank, m.at, m.done}, err
}

// setup runs NewComm with a death in it, and then makes a communicator of the survivors.
func setup(k *commtest.Process) error {
	var b bootstrap.Bootstrap = k.Boot
	if k.Rank == k.Victim {
		b = mortal{k.Boot, k, k.At, new(atomic.Int32)}
	}
	c, err := k.Comm(b)
	if err == nil { // the last step is a barrier, from which some ranks may return
		var u *commtest.Sums
		if u, err = commtest.NewSums(c); err == nil {
			err = u.Once(1)
			err = errors.Join(err, u.Close())
		}
		defer func() { _ = c.Close() }()
	}
	if k.Rank == k.Victim {
		return fmt.Errorf("step %d was not reached: %w", k.At, err)
	}
	k.Say("error", err)
	left, err := k.Boot.Sub(context.Background(), commtest.Others(k.Size, k.Victim), 1)
	if err != nil {
		return err
	}
	small, u, err := k.Sums(left, 3)
	if err != nil {
		return err
	}
	k.Say("shrunk", nil)
	return errors.Join(small.Finalize(context.Background()), u.Close(), small.Close(), left.Close())
}

// detection bounds the time until a death is reported.
const detection = commtest.Slowness * time.Second

// inTime runs a job whose survivors' errors come after the time that f returns. testutil.Prompt compares it to limit.
func inTime(t *testing.T, tk commtest.Task, limit time.Duration, f func(j *commtest.Job) (worst time.Duration)) {
	t.Helper()
	testutil.Prompt(t, limit, func() time.Duration {
		j := commtest.Start(t, tk)
		worst := f(j)
		j.Clean()
		return worst
	})
}

// checkErrors waits for every survivor's error, checks the rank that it blames, and returns how long the last one took.
func checkErrors(j *commtest.Job, kind error, since time.Time) (worst time.Duration) {
	j.T.Helper()
	tk := j.Task
	for r, rep := range j.Await("error", commtest.Others(tk.Size, tk.Victim), time.Minute) {
		if r == tk.Victim {
			continue
		}
		worst = max(worst, time.Unix(0, rep.At).Sub(since))
		if rep.Peer != tk.Victim || rep.Kind != kind.Error() {
			j.T.Errorf("rank %d blames %d (%s): %s", r, rep.Peer, rep.Kind, rep.Text)
		}
	}
	return worst
}

func TestKill(t *testing.T) {
	for _, do := range []string{"wait", "traffic"} {
		t.Run(do, func(t *testing.T) {
			commtest.OnDevices(t, func(t *testing.T, tk commtest.Task) {
				tk.Do, tk.Victim = do, tk.Size/2
				inTime(t, tk, detection, func(j *commtest.Job) time.Duration {
					j.Await("running", commtest.Everyone(tk.Size), time.Minute)
					killed := j.Signal(tk.Victim, syscall.SIGKILL)
					worst := checkErrors(j, goccl.ErrPeerDead, killed)
					j.Await("shrunk", commtest.Others(tk.Size, tk.Victim), time.Minute)
					j.Await("done", commtest.Others(tk.Size, tk.Victim), time.Minute)
					return worst
				})
			})
		})
	}
}

// Survivors that exit at once must not be blamed by ranks that detect the first death later.
func TestKillCascade(t *testing.T) {
	commtest.OnDevices(t, func(t *testing.T, tk commtest.Task) {
		tk.Do, tk.Victim, tk.Exit = "traffic", 0, true
		inTime(t, tk, detection, func(j *commtest.Job) time.Duration {
			j.Await("running", commtest.Everyone(tk.Size), time.Minute)
			killed := j.Signal(tk.Victim, syscall.SIGKILL)
			return checkErrors(j, goccl.ErrPeerDead, killed)
		})
	})
}

func TestKillInSetUp(t *testing.T) {
	commtest.OnDevices(t, func(t *testing.T, tk commtest.Task) {
		steps := []int{1, 2, 3, 4, 5} // Sub, AllGather of agree, AllGather and Barrier of the windows, Barrier of join
		if tk.CUDA {
			steps = append(steps, 6)
		}
		if testing.Short() {
			steps = []int{3}
		}
		for _, at := range steps {
			t.Run(fmt.Sprint("step ", at), func(t *testing.T) {
				tk := tk
				tk.Do, tk.Victim, tk.At = "setup", tk.Size-1, at
				inTime(t, tk, detection, func(j *commtest.Job) time.Duration {
					dying := j.Await("dying", []int{tk.Victim}, time.Minute)[tk.Victim]
					worst := checkErrors(j, goccl.ErrPeerDead, time.Unix(0, dying.At))
					j.Await("shrunk", commtest.Others(tk.Size, tk.Victim), time.Minute)
					j.Await("done", commtest.Others(tk.Size, tk.Victim), time.Minute)
					return worst
				})
			})
		}
	})
}

// A stopped rank is named when the deadline passes, not before. When it continues, it gets the error that it was given
// up.
func TestStop(t *testing.T) {
	commtest.OnDevices(t, func(t *testing.T, tk commtest.Task) {
		tk.Do, tk.Victim, tk.OpTimeout = "traffic", 1, 5*time.Second
		inTime(t, tk, tk.OpTimeout+detection, func(j *commtest.Job) time.Duration { return stop(t, tk, j) })
	})
}

func stop(t *testing.T, tk commtest.Task, j *commtest.Job) time.Duration {
	j.Await("running", commtest.Everyone(tk.Size), time.Minute)
	pause := j.Signal(tk.Victim, syscall.SIGSTOP)
	time.Sleep(tk.OpTimeout / 5)
	paused := j.Signal(tk.Victim, syscall.SIGCONT).Sub(pause)
	time.Sleep(tk.OpTimeout / 10)
	for _, r := range j.Said() {
		if r.Event == "error" && paused < tk.OpTimeout/2 {
			t.Errorf("rank %d gave up after a pause shorter than the deadline: %s", r.Rank, r.Text)
		}
	}

	stopped := j.Signal(tk.Victim, syscall.SIGSTOP)
	worst := checkErrors(j, goccl.ErrTimeout, stopped)
	for _, rep := range j.Await("error", commtest.Others(tk.Size, tk.Victim), time.Minute) {
		if rep.Op != "all_reduce" || rep.Seq == 0 {
			t.Errorf("the error names no operation: %+v", rep)
		}
	}
	j.Await("shrunk", commtest.Others(tk.Size, tk.Victim), time.Minute)
	j.Signal(tk.Victim, syscall.SIGCONT)
	late := j.Await("error", commtest.Everyone(tk.Size), time.Minute)[tk.Victim]
	if late.Op != "all_reduce" || late.Peer == tk.Victim || late.Kind == "" {
		t.Errorf("the stopped rank, continued: %+v", late)
	}
	j.Await("done", commtest.Everyone(tk.Size), time.Minute)
	return worst
}
