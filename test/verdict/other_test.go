package verdict_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/commtest"
)

// busy: the victim has called, but another kernel of the caller runs before the operation on its stream.
func busy(k *commtest.Process) error {
	return with(k, func(r *rank) error {
		release := make(chan struct{})
		if k.Rank == k.Victim {
			if err := r.s.(*host.Stream).Launch("kernel", 1, func(*host.Block) error {
				<-release
				return nil
			}); err != nil {
				return err
			}
		}
		err := r.sum(50)
		if err == nil && k.Rank != k.Victim {
			err = r.await("verdict", fault.VerdictBusy)
		}
		err = errors.Join(err, k.Boot.Barrier(context.Background()))
		close(release)
		return errors.Join(err, r.c.Synchronize(context.Background(), r.s))
	})
}

func TestARankWhoseStreamIsBusy(t *testing.T) {
	t.Parallel()
	j := commtest.Start(t, commtest.Task{Do: "busy", Size: 3, Victim: 1})
	for r, v := range verdicts(t, j, "verdict", []int{0, 2}) {
		check(t, v, r, 1, fault.VerdictBusy, "rank 1 has called all_reduce(sum) of 50 × int32 (#4)")
	}
	j.Await("done", commtest.Everyone(3), time.Minute)
}

// differ: the victim calls with one argument other than the others' (Task.At).
func differ(k *commtest.Process) error {
	return with(k, func(r *rank) error {
		p, victim := r.mem.Ptr(), k.Rank == k.Victim
		count, t, op, root := int64(50), datatype.Int32, datatype.Sum, 0
		var err error
		switch {
		case k.At == 0 && victim:
			err = r.c.AllGather(p.Add(int64(k.Rank)*10*t.Size()), p, 10, t, r.s) // in place
		case k.At == 1 && victim:
			count = 51
		case k.At == 2 && victim:
			t = datatype.Float32
		case k.At == 3 && victim:
			op = datatype.Max
		case k.At == 4:
			if victim {
				root = 1
			}
			err = r.c.Broadcast(p, p, count, t, root, r.s)
		case k.At == 5 && victim: // the order
			err = r.c.Broadcast(p, p, count, t, root, r.s)
		}
		if k.At != 4 {
			err = errors.Join(err, r.c.AllReduce(p, p, count, t, op, r.s))
		}
		if k.At == 5 && !victim {
			err = errors.Join(err, r.c.Broadcast(p, p, count, t, root, r.s))
		}
		if err != nil {
			return err
		}
		err = r.c.Synchronize(context.Background(), r.s)
		var ge *goccl.Error
		if !errors.Is(err, goccl.ErrMismatch) || !errors.As(err, &ge) || ge.Verdict == nil {
			return fmt.Errorf("want a mismatch with a verdict: %w", err)
		}
		r.say(ge.Verdict)
		return k.Boot.Barrier(context.Background())
	})
}

func TestRanksThatCallDifferentOperations(t *testing.T) {
	t.Parallel()
	for at, part := range []string{"rank 2 calls all_gather of 10 × int32 as #4, rank %d all_reduce(sum) of 50 × int32",
		"all_reduce(sum) of 51 × int32", "all_reduce(sum) of 50 × float", "all_reduce(max) of 50 × int32",
		"broadcast of 50 × int32 with root 1", "there it is #5: the order differs"} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			j := commtest.Start(t, commtest.Task{Do: "differ", Size: 4, Victim: 2, At: at})
			all := verdicts(t, j, "verdict", commtest.Everyone(4))
			if at == 5 { // a rank that compares before rank 2 has made the next call cannot say where it is
				said := false
				for _, v := range all {
					said = said || strings.Contains(v.What, part)
				}
				if !said {
					t.Errorf("nobody says %q", part)
				}
				part = "rank 2 calls broadcast of 50 × int32 with root 0 as #4, rank %d all_reduce(sum) of 50 × int32"
			}
			for _, r := range []int{0, 1, 3} {
				check(t, all[r], r, 2, fault.VerdictMismatch, strings.ReplaceAll(part, "%d", fmt.Sprint(r)))
			}
			check(t, all[2], 2, 2, fault.VerdictMismatch, "as #4, rank 2") // it is the odd one
			j.Await("done", commtest.Everyone(4), time.Minute)
		})
	}
}

// order: two ranks use two communicators, each call returns when it is done, in another order on each rank.
func order(k *commtest.Process) error { return around(k, [][]int{{0, 1}, {0, 1}}) }

// circle: each rank waits in one communicator for the next rank, which waits in another one.
func circle(k *commtest.Process) error {
	pairs := make([][]int, k.Size)
	for i := range pairs {
		pairs[i] = []int{i, (i + 1) % k.Size}
	}
	return around(k, pairs)
}

// around makes a communicator of each pair of ranks. Rank r calls the communicator of pair r first.
func around(k *commtest.Process, pairs [][]int) error {
	return with(k, func(r *rank) error {
		comms := make([]*goccl.Comm, len(pairs))
		for i, pair := range pairs {
			color := goccl.NoColor
			if pair[0] == k.Rank || pair[1] == k.Rank {
				color = 0
			}
			name := func(cfg *goccl.Config) { cfg.Name = fmt.Sprint("pair ", i) }
			c, err := r.c.Split(context.Background(), color, k.Rank, name)
			if err != nil {
				return err
			}
			if comms[i] = c; c != nil {
				defer func() { _ = c.Close() }()
			}
		}
		p := r.mem.Ptr()
		ended := make(chan error, 1)
		go func() {
			for i := range pairs {
				if c := comms[(k.Rank+i)%len(pairs)]; c != nil {
					if err := c.AllReduce(p, p, 10, datatype.Int32, datatype.Sum, nil); err != nil {
						ended <- err
						return
					}
				}
			}
			ended <- nil
		}()
		first := &rank{Process: k, c: comms[k.Rank%len(pairs)]}
		err := first.await("verdict", fault.VerdictDeadlock)
		err = errors.Join(err, k.Boot.Barrier(context.Background()))
		for _, c := range comms {
			if c != nil {
				c.Abort(nil)
			}
		}
		if e := <-ended; !errors.Is(e, goccl.ErrAborted) {
			return errors.Join(err, fmt.Errorf("the calls ended with %w", e))
		}
		return errors.Join(err, k.Boot.Barrier(context.Background()))
	})
}

func TestCommunicatorsInDifferentOrders(t *testing.T) {
	t.Parallel()
	for do, n := range map[string]int{"order": 2, "circle": 3} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			j := commtest.Start(t, commtest.Task{Do: do, Size: n})
			for r, v := range verdicts(t, j, "verdict", commtest.Everyone(n)) {
				if v.Kind != fault.VerdictDeadlock || strings.Count(v.What, "waits in") != n ||
					!strings.Contains(v.What, `"pair 0"`) || !strings.Contains(v.What, `"pair 1"`) {
					t.Errorf("rank %d: %+v", r, v)
				}
			}
			j.Await("done", commtest.Everyone(n), time.Minute)
		})
	}
}

// slow: the victim comes later than the others, to every operation, until all others have a verdict. The ranks sum up
// how many of them have one.
func slow(k *commtest.Process) error {
	return with(k, func(r *rank) error {
		var sum [4]byte
		for range 2000 {
			mine := [4]byte{}
			if v := r.c.Verdict(); k.Rank == k.Victim {
				time.Sleep(25 * time.Millisecond)
			} else if v != nil && v.Kind == fault.VerdictSlow {
				mine[0] = 1
			}
			if err := errors.Join(k.Device.CopyIn(r.mem.Ptr(), mine[:]), r.sum(1),
				r.c.Synchronize(context.Background(), r.s), k.Device.CopyOut(sum[:], r.mem.Ptr())); err != nil {
				return err
			}
			if int(sum[0]) == k.Size-1 {
				break
			}
		}
		if k.Rank != k.Victim {
			r.say(r.c.Verdict())
		}
		return k.Boot.Barrier(context.Background())
	})
}

func TestARankThatIsSlow(t *testing.T) {
	t.Parallel()
	j := commtest.Start(t, commtest.Task{Do: "slow", Size: 3, Victim: 2})
	for r, v := range verdicts(t, j, "verdict", []int{0, 1}) {
		check(t, v, r, 2, fault.VerdictSlow, "rank 2 came last to")
	}
	j.Await("done", commtest.Everyone(3), time.Minute)
}

// skewed: each operation waits for another rank, for less than the threshold.
func skewed(k *commtest.Process) error {
	return with(k, func(r *rank) error {
		for i := range 30 {
			if i%k.Size == k.Rank {
				time.Sleep(20 * time.Millisecond)
			}
			if err := errors.Join(r.sum(50), r.c.Synchronize(context.Background(), r.s)); err != nil {
				return err
			}
		}
		if v := r.c.Verdict(); v != nil {
			return fmt.Errorf("a false alarm: %v", v)
		}
		return k.Boot.Barrier(context.Background())
	})
}

func TestSkewIsNoAlarm(t *testing.T) {
	t.Setenv("GOCCL_VERDICT_AFTER", "5s")
	j := commtest.Start(t, commtest.Task{Do: "skewed", Size: 3})
	j.Await("done", commtest.Everyone(3), time.Minute)
}
