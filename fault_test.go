package goccl_test

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
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/internal/testutil"
)

// settle counts the resources of the process, after process-wide parts have been created.
func (k *rank) settle(base testutil.Resources) testutil.Resources {
	if base.Descriptors == 0 {
		_, _ = fdshare.Shared()
		b := bootstrap.NewTCP(0, 1)
		_ = b.InitAddress(context.Background(), k.Address+"-warm-"+fmt.Sprint(k.Rank))
		_ = b.Close()
		time.Sleep(50 * time.Millisecond)
		return testutil.Held()
	}
	return testutil.Settled(base)
}

// buffers are a rank's memory for all-reduces.
const faultCount = 1 << 16

type sums struct {
	c   *goccl.Comm
	mem device.Allocation
	s   device.Stream
}

func newSums(c *goccl.Comm) (*sums, error) {
	mem, err := c.Device().Alloc(8 * faultCount)
	if err != nil {
		return nil, err
	}
	s, err := c.Device().NewStream()
	if err != nil {
		return nil, errors.Join(err, mem.Close())
	}
	u := &sums{c: c, mem: mem, s: s}
	ones := make([]byte, 4*faultCount)
	for i := 0; i < len(ones); i += 4 {
		ones[i] = 1
	}
	return u, c.Device().CopyIn(mem.Ptr(), ones)
}

// once runs n all-reduces in a row, with input 1 on every rank, and checks the sum.
func (u *sums) once(n int) error {
	out := u.mem.Ptr().Add(4 * faultCount)
	for range n {
		if err := u.c.AllReduce(u.mem.Ptr(), out, faultCount, datatype.Int32, datatype.Sum, u.s); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := u.c.Synchronize(ctx, u.s); err != nil {
		return err
	}
	got := make([]byte, 4*faultCount)
	if err := u.c.Device().CopyOut(got, out); err != nil {
		return err
	}
	for i := 0; i < len(got); i += 4 {
		if int(got[i]) != u.c.WorldSize() || got[i+1]|got[i+2]|got[i+3] != 0 {
			return fmt.Errorf("element %d is % x, want %d", i/4, got[i:i+4], u.c.WorldSize())
		}
	}
	return nil
}

func (u *sums) close() error { return errors.Join(u.s.Close(), u.mem.Close()) }

// traffic runs all-reduces until a rank dies, and then uses the survivors' shrunk communicator.
func (k *rank) traffic() error {
	c, err := k.comm(k.boot)
	if err != nil {
		return err
	}
	u, err := newSums(c)
	if err != nil {
		return err
	}
	for i := 0; err == nil; i++ {
		if i == 5 {
			k.say("running", nil)
		}
		err = u.once(3)
	}
	return k.mourn(c, u, err)
}

// wait is an all-reduce that the victim never joins.
func (k *rank) wait() error {
	c, err := k.comm(k.boot)
	if err != nil {
		return err
	}
	u, err := newSums(c)
	if err != nil {
		return err
	}
	if err := u.once(1); err != nil {
		return err
	}
	if k.Rank == k.Victim {
		time.Sleep(100 * time.Millisecond)
		k.say("running", nil)
		time.Sleep(time.Minute)
	}
	k.say("running", nil)
	return k.mourn(c, u, u.once(1))
}

// mourn reports the error, continues with the survivors and checks that nothing is left over.
func (k *rank) mourn(c *goccl.Comm, u *sums, err error) error {
	k.say("error", err)
	if k.Exit {
		os.Exit(0)
	}
	if err == nil {
		return errors.New("no error")
	}
	if k.Rank == k.Victim { // stopped and continued: the others have given it up
		return errors.Join(u.close(), c.Close())
	}
	if c.AsyncError() == nil {
		return errors.New("an operation failed, and AsyncError is nil")
	}
	var again *goccl.Error
	if err := u.once(1); !errors.As(err, &again) {
		return fmt.Errorf("the failed communicator answers %v", err)
	}
	small, err := c.Shrink(context.Background(), []int{k.Victim}, true)
	if err != nil {
		return err
	}
	v, err := newSums(small)
	if err != nil {
		return err
	}
	for range 3 {
		if err := v.once(2); err != nil {
			return fmt.Errorf("shrunk: %w", err)
		}
	}
	k.say("shrunk", nil)
	return errors.Join(small.Finalize(context.Background()), v.close(), u.close(), small.Close(), c.Close())
}

// mortal is a Bootstrap whose process dies at the at-th call that set-up makes on it.
type mortal struct {
	bootstrap.Bootstrap
	rank *rank
	at   int
	done *atomic.Int32
}

func (m mortal) step() {
	if int(m.done.Add(1)) == m.at {
		m.rank.say("dying", nil)
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
func (k *rank) setup() error {
	var b bootstrap.Bootstrap = k.boot
	if k.Rank == k.Victim {
		b = mortal{k.boot, k, k.At, new(atomic.Int32)}
	}
	c, err := k.comm(b)
	if err == nil { // the last step is a barrier, from which some ranks may return
		var u *sums
		if u, err = newSums(c); err == nil {
			err = u.once(1)
			err = errors.Join(err, u.close())
		}
		defer func() { _ = c.Close() }()
	}
	if k.Rank == k.Victim {
		return fmt.Errorf("step %d was not reached: %w", k.At, err)
	}
	k.say("error", err)
	left, err := k.boot.Sub(context.Background(), others(k.Size, k.Victim), 1)
	if err != nil {
		return err
	}
	small, err := k.comm(left)
	if err != nil {
		return err
	}
	u, err := newSums(small)
	if err != nil {
		return err
	}
	if err := u.once(3); err != nil {
		return err
	}
	k.say("shrunk", nil)
	return errors.Join(small.Finalize(context.Background()), u.close(), small.Close(), left.Close())
}

// detection bounds the time until a death is reported.
const detection = slowness * time.Second

// inTime runs a job whose survivors' errors come after the time that f returns. All must come within limit. On a busy
// machine it tries a second and a third time, for the time limit only.
func inTime(t *testing.T, tk task, limit time.Duration, f func(j *job) (worst time.Duration)) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		j := startJob(t, tk)
		worst := f(j)
		j.clean()
		t.Logf("the last of %d survivors noticed after %v", tk.Size-1, worst)
		if worst <= limit || t.Failed() {
			return
		}
		if attempt == 3 {
			t.Errorf("noticed after %v, want %v", worst, limit)
			return
		}
	}
}

// checkErrors waits for every survivor's error, checks the rank that it blames, and returns how long the last one took.
func (j *job) checkErrors(kind error, since time.Time) (worst time.Duration) {
	j.t.Helper()
	tk := j.task
	for r, rep := range j.await("error", others(tk.Size, tk.Victim), time.Minute) {
		if r == tk.Victim {
			continue
		}
		worst = max(worst, time.Unix(0, rep.At).Sub(since))
		if rep.Peer != tk.Victim || rep.Kind != kind.Error() {
			j.t.Errorf("rank %d blames %d (%s): %s", r, rep.Peer, rep.Kind, rep.Text)
		}
	}
	return worst
}

// clean checks that the processes have ended and have left nothing on the machine.
func (j *job) clean() {
	j.t.Helper()
	j.wg.Wait()
	for r, p := range j.procs {
		if r != j.task.Victim && !p.ProcessState.Success() {
			j.t.Errorf("rank %d ended with %v", r, p.ProcessState)
		}
	}
	testutil.NothingLeft(j.t)
}

func TestKill(t *testing.T) {
	for _, do := range []string{"wait", "traffic"} {
		t.Run(do, func(t *testing.T) {
			onDevices(t, func(t *testing.T, tk task) {
				tk.Do, tk.Victim = do, tk.Size/2
				inTime(t, tk, detection, func(j *job) time.Duration {
					j.await("running", everyone(tk.Size), time.Minute)
					killed := j.signal(tk.Victim, syscall.SIGKILL)
					worst := j.checkErrors(goccl.ErrPeerDead, killed)
					j.await("shrunk", others(tk.Size, tk.Victim), time.Minute)
					j.await("done", others(tk.Size, tk.Victim), time.Minute)
					return worst
				})
			})
		})
	}
}

// Survivors that exit at once must not be blamed by ranks that detect the first death later.
func TestKillCascade(t *testing.T) {
	onDevices(t, func(t *testing.T, tk task) {
		tk.Do, tk.Victim, tk.Exit = "traffic", 0, true
		inTime(t, tk, detection, func(j *job) time.Duration {
			j.await("running", everyone(tk.Size), time.Minute)
			killed := j.signal(tk.Victim, syscall.SIGKILL)
			return j.checkErrors(goccl.ErrPeerDead, killed)
		})
	})
}

func TestKillInSetUp(t *testing.T) {
	onDevices(t, func(t *testing.T, tk task) {
		steps := []int{1, 2, 3, 4} // Sub, AllGather of agree, AllGather and Barrier of the windows
		if tk.CUDA {
			steps = append(steps, 5)
		}
		if testing.Short() {
			steps = []int{3}
		}
		for _, at := range steps {
			t.Run(fmt.Sprint("step ", at), func(t *testing.T) {
				tk := tk
				tk.Do, tk.Victim, tk.At = "setup", tk.Size-1, at
				inTime(t, tk, detection, func(j *job) time.Duration {
					dying := j.await("dying", []int{tk.Victim}, time.Minute)[tk.Victim]
					worst := j.checkErrors(goccl.ErrPeerDead, time.Unix(0, dying.At))
					j.await("shrunk", others(tk.Size, tk.Victim), time.Minute)
					j.await("done", others(tk.Size, tk.Victim), time.Minute)
					return worst
				})
			})
		}
	})
}

// A stopped rank is named when the deadline passes, not before. When it continues, it gets the error that it was given
// up.
func TestStop(t *testing.T) {
	onDevices(t, func(t *testing.T, tk task) {
		tk.Do, tk.Victim, tk.OpTimeout = "traffic", 1, 3*time.Second
		inTime(t, tk, tk.OpTimeout+detection, func(j *job) time.Duration { return stop(t, tk, j) })
	})
}

func stop(t *testing.T, tk task, j *job) time.Duration {
	j.await("running", everyone(tk.Size), time.Minute)
	j.signal(tk.Victim, syscall.SIGSTOP)
	time.Sleep(tk.OpTimeout / 3)
	j.signal(tk.Victim, syscall.SIGCONT)
	time.Sleep(tk.OpTimeout / 10)
	j.mu.Lock()
	for _, r := range j.reports {
		if r.Event == "error" {
			t.Errorf("rank %d gave up after a pause shorter than the deadline: %s", r.Rank, r.Text)
		}
	}
	j.mu.Unlock()

	stopped := j.signal(tk.Victim, syscall.SIGSTOP)
	worst := j.checkErrors(goccl.ErrTimeout, stopped)
	for _, rep := range j.await("error", others(tk.Size, tk.Victim), time.Minute) {
		if rep.Op != "all_reduce" || rep.Seq == 0 {
			t.Errorf("the error names no operation: %+v", rep)
		}
	}
	j.await("shrunk", others(tk.Size, tk.Victim), time.Minute)
	j.signal(tk.Victim, syscall.SIGCONT)
	late := j.await("error", everyone(tk.Size), time.Minute)[tk.Victim]
	if late.Op != "all_reduce" || late.Peer == tk.Victim || late.Kind == "" {
		t.Errorf("the stopped rank, continued: %+v", late)
	}
	j.await("done", everyone(tk.Size), time.Minute)
	return worst
}
