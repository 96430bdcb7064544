package bootstrap

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestStragglerOfAnotherAttempt: a process that outlives its attempt finds the next attempt's root at the same address.
// It gets an error; the job starts.
func TestStragglerOfAnotherAttempt(t *testing.T) {
	t.Parallel()
	vars := []string{"NCCL_COMM_ID=127.0.0.1:" + portString(t), "LOCAL_WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=job"}
	rank := func(r int, attempt string, more ...string) *child {
		return startRank(t, "barrier", r, 2, "", append(append(vars, "TORCHELASTIC_RESTART_COUNT="+attempt), more...)...)
	}
	root := rank(0, "1")
	if line, _ := rank(1, "0").last(t); !strings.Contains(line, "attempt 0, and attempt 1 joins there") {
		t.Errorf("the straggler: %s", line)
	}
	if line, _ := rank(1, "1", "TORCHELASTIC_RUN_ID=another").last(t); !strings.Contains(line, "another run") {
		t.Errorf("a rank of another run: %s", line)
	}
	rank(1, "1").expect(t, "done", 30*time.Second)
	root.expect(t, "done", 30*time.Second)
}

// TestRootOfAnotherAttempt: ranks of the next attempt arrive before the root of the last one is gone. They wait for
// their own root.
func TestRootOfAnotherAttempt(t *testing.T) {
	t.Parallel()
	vars := []string{"NCCL_COMM_ID=127.0.0.1:" + portString(t), "LOCAL_WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=job"}
	rank := func(r int, attempt string) *child {
		return startRank(t, "barrier", r, 2, "", append(vars, "TORCHELASTIC_RESTART_COUNT="+attempt)...)
	}
	old := rank(0, "0")
	old.expect(t, "started", 30*time.Second)
	time.Sleep(200 * time.Millisecond) // the root is listening by now; otherwise this test covers less
	next := rank(1, "1")
	next.expect(t, "started", 30*time.Second)
	time.Sleep(200 * time.Millisecond)
	old.kill()
	rank(0, "1").expect(t, "done", 30*time.Second)
	next.expect(t, "done", 30*time.Second)
}

func TestCurrentAttempt(t *testing.T) {
	read := func(vars ...string) attempt {
		m := map[string]string{}
		for _, v := range vars {
			name, value, _ := strings.Cut(v, "=")
			m[name] = value
		}
		a, err := currentAttempt(environment{get: func(n string) string { return m[n] }})
		if err != nil {
			t.Errorf("%v: %v", vars, err)
		}
		return a
	}
	if a := read("TORCHELASTIC_RESTART_COUNT=3", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=2"); a != (attempt{}) {
		t.Error("without a run:", a)
	}
	if a := read("TORCHELASTIC_RUN_ID=x", "TORCHELASTIC_RESTART_COUNT=3", "WORLD_SIZE=2",
		"LOCAL_WORLD_SIZE=2"); a.number() != 3 {
		t.Error("on one host:", a)
	}
	// Agents of several hosts count restarts separately.
	if a := read("TORCHELASTIC_RUN_ID=x", "TORCHELASTIC_RESTART_COUNT=3", "WORLD_SIZE=4",
		"LOCAL_WORLD_SIZE=2"); a != read("TORCHELASTIC_RUN_ID=x", "TORCHELASTIC_RESTART_COUNT=2", "WORLD_SIZE=4",
		"LOCAL_WORLD_SIZE=2") {
		t.Error("on two hosts:", a)
	}
	if read("TORCHELASTIC_RUN_ID=x") == read("GOCCL_RUN_ID=y") {
		t.Error("two runs are one")
	}
	one := read("TORCHELASTIC_RUN_ID=x")
	later := one
	later[12] = 1
	var again errRetry
	if err := one.meets(later); !errors.Is(err, ErrAttempt) || errors.As(err, &again) {
		t.Error(err)
	}
	if err := later.meets(one); !errors.Is(err, ErrAttempt) || !errors.As(err, &again) {
		t.Error(err)
	}
	if err := one.meets(attempt{}); !errors.Is(err, ErrAttempt) || errors.As(err, &again) {
		t.Error(fmt.Sprint(err))
	}
}
