package verdict_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/watch/record"
)

// The steps of waits, in Task.At.
const (
	untilMissing = iota // the others wait for a verdict of this kind
	untilStopped
	untilError // the others wait for an error and report its verdict
)

// waits is a rank that calls an all-reduce, which the victim does not call until all others have a verdict. Then it
// goes on, and the others find out that it was late.
func waits(k *commtest.Process) error {
	return with(k, func(r *rank) error {
		sync := func() error { return r.c.Synchronize(context.Background(), r.s) }
		barrier := func() error { return k.Boot.Barrier(context.Background()) }
		k.Say("running", nil)
		if k.Rank == k.Victim {
			return errors.Join(barrier(), r.sum(50), sync(), barrier())
		}
		err := r.sum(50)
		if k.At == untilError {
			if err == nil {
				err = sync()
			}
			var ge *goccl.Error
			if !errors.As(err, &ge) || ge.Verdict == nil || !strings.Contains(err.Error(), ge.Verdict.What) {
				return fmt.Errorf("an error without a verdict, or whose text lacks it: %w", err)
			}
			r.say(ge.Verdict)
			return nil
		}
		if err != nil {
			return err
		}
		kind := fault.VerdictMissing
		if k.At == untilStopped {
			kind = fault.VerdictStopped
		}
		if err := r.await("verdict", kind); err != nil {
			return err
		}
		return errors.Join(barrier(), sync(), r.await("late", fault.VerdictStarved), barrier())
	})
}

func check(t *testing.T, v *goccl.Verdict, by, rank int, kind fault.VerdictKind, part string) {
	t.Helper()
	if v.Kind != kind || v.Rank != rank || v.By != by || !strings.Contains(v.What, part) || v.Mend == "" {
		t.Errorf("rank %d: %+v; want %s of rank %d", by, v, kind, rank)
	}
}

func TestARankThatIsDead(t *testing.T) {
	t.Parallel()
	j := commtest.Start(t, commtest.Task{Do: "wait", Size: 3, Victim: 1, At: untilError})
	j.Await("running", commtest.Everyone(3), time.Minute)
	j.Signal(1, syscall.SIGKILL)
	for r, v := range verdicts(t, j, "verdict", []int{0, 2}) {
		check(t, v, r, 1, fault.VerdictDead, "rank 1 is dead")
		if v.Process == 0 || v.Host == "" {
			t.Errorf("where was it? %+v", v)
		}
	}
}

func TestARankThatIsStopped(t *testing.T) {
	t.Parallel()
	j := commtest.Start(t, commtest.Task{Do: "wait", Size: 3, Victim: 1, At: untilStopped})
	j.Await("running", commtest.Everyone(3), time.Minute)
	j.Signal(1, syscall.SIGSTOP)
	for r, v := range verdicts(t, j, "verdict", []int{0, 2}) {
		check(t, v, r, 1, fault.VerdictStopped, "rank 1 is stopped")
		if !strings.Contains(v.Mend, fmt.Sprint("kill -CONT ", v.Process)) {
			t.Errorf("what to do: %s", v.Mend)
		}
	}
	p, err := record.Of(j.Process(1).Pid)
	if err != nil || len(p.Communicators) != 1 || p.Communicators[0].Rank != 1 || p.Communicators[0].Collectives != 3 {
		t.Errorf("the records of a process that is stopped: %+v, %v", p, err)
	}
	j.Signal(1, syscall.SIGCONT)
	for r, v := range verdicts(t, j, "late", []int{0, 2}) {
		check(t, v, r, 1, fault.VerdictStarved, "after rank")
	}
	j.Await("done", commtest.Everyone(3), time.Minute)
}

// The rank is named while it does something else, and when it comes it is named as late.
func TestARankThatDoesNotCallAndThenIsLate(t *testing.T) {
	t.Parallel()
	j := commtest.Start(t, commtest.Task{Do: "wait", Size: 3, Victim: 2})
	for r, v := range verdicts(t, j, "verdict", []int{0, 1}) {
		check(t, v, r, 2, fault.VerdictMissing,
			"rank 2 has not called all_reduce(sum) of 50 × int32 (#4); its last call")
	}
	for r, v := range verdicts(t, j, "late", []int{0, 1}) {
		check(t, v, r, 2, fault.VerdictStarved, "rank 2 called all_reduce")
	}
	j.Await("done", commtest.Everyone(3), time.Minute)
}

// The file of a process that was killed has its operations.
func TestTheRecordsOfAKilledProcessRemain(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("GOCCL_RECORD_DIR", folder)
	j := commtest.Start(t, commtest.Task{Do: "wait", Size: 2, Victim: 1, At: untilError})
	j.Await("running", commtest.Everyone(2), time.Minute)
	j.Signal(1, syscall.SIGKILL)
	verdicts(t, j, "verdict", []int{0})
	files, _ := filepath.Glob(fmt.Sprintf("%s/%s-%d-*", folder, record.FileName, j.Process(1).Pid))
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	p, err := record.ReadFile(files[0])
	if err != nil || len(p.Communicators) != 1 || p.Communicators[0].Rank != 1 ||
		len(p.Communicators[0].Operations) != 3 || p.Communicators[0].Operations[2].State != record.Ended {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTheErrorOfAFailingCallHasTheVerdict(t *testing.T) {
	t.Parallel()
	j := commtest.Start(t, commtest.Task{Do: "wait", Size: 2, Victim: 1, At: untilError, OpTimeout: 3 * time.Second})
	check(t, verdicts(t, j, "verdict", []int{0})[0], 0, 1, fault.VerdictMissing, "has not called")
}
