package executor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/programs"
)

var errHangs = errors.New("the plan hangs")

// patience is the number of looks without a step of any rank after which a job hangs. A look takes at least a
// millisecond, and longer on a machine that is busy with other work. Between two looks the scheduler has had an
// opportunity to run any rank that could go on, so a job that is only slow makes a step long before.
const patience = 10000

// watched runs f on all ranks of a job whose launches have no deadline. It ends them with errHangs when no rank makes a
// step in so many looks; a job that makes steps may take as long as it needs.
func (j *job) watched(xs []*executor.ExecutionPlan, looks int, f func(ctx context.Context, r int) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var steps atomic.Uint64
	for _, x := range xs {
		x.CountSteps(&steps)
	}
	over := make(chan error, 1)
	go func() {
		over <- j.each(func(r int) error {
			defer steps.Add(1)
			return f(ctx, r)
		})
	}()
	seen, still := steps.Load(), 0
	for {
		select {
		case err := <-over:
			return err
		case <-time.After(time.Millisecond):
		}
		now := steps.Load()
		if still++; now != seen {
			seen, still = now, 0
		}
		hangs := fmt.Errorf("%w: %d steps, then none in %d looks", errHangs, now, looks)
		switch still {
		case looks: // launches end, and say where they waited
			for _, e := range j.execs {
				e.Abort(hangs)
			}
		case 2 * looks: // ranks that wait elsewhere end
			cancel(hangs)
		}
	}
}

// TestWatchEndsWhatHangs: a launch whose peer never launches hangs, and the error names where it waits; one whose peer
// is late does not.
func TestWatchEndsWhatHangs(t *testing.T) {
	for _, late := range []bool{true, false} {
		p, err := programs.Build("allreduce_direct", programs.Options{Ranks: 2})
		if err != nil {
			t.Fatal(err)
		}
		j := newPatientJob(t, 2, openHost, 0)
		xs := j.load(t, p)
		c := planrun.Case{Message: 1024, Type: datatype.Float32, Op: datatype.Sum}
		looks := 100
		if late {
			looks = patience
		}
		err = j.watched(xs, looks, func(ctx context.Context, r int) error {
			if r == 1 {
				if !late {
					return nil
				}
				time.Sleep(20 * time.Millisecond)
			}
			_, err := planrun.Rank(ctx, xs[r], r, j.devs[r], c)
			return err
		})
		if late && err != nil || !late && (!errors.Is(err, errHangs) ||
			!strings.Contains(err.Error(), "rank 1")) {
			t.Errorf("late %v: %v", late, err)
		}
	}
}
