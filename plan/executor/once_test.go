package executor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
)

// TestCounterexampleOnce: when all ranks load a wrong plan, rank 0 reports the counterexample and the others a line.
func TestCounterexampleOnce(t *testing.T) {
	p, err := programs.Build("allgather_direct", programs.Options{Ranks: 3})
	if err != nil {
		t.Fatal(err)
	}
	ops := &p.GPUs[1].ThreadBlocks[0].Ops
	*ops = (*ops)[1:]
	j := newJob(t, 3, openHost)
	_ = j.each(func(r int) error {
		_, err := j.execs[r].Load(bounded(t), p)
		var wrong *verify.Violation
		if !errors.As(err, &wrong) || strings.Contains(err.Error(), "\n") != (r == 0) {
			t.Errorf("rank %d: %v", r, err)
		}
		return nil
	})
}
