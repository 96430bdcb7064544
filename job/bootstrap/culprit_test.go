package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// TestForeignAddress gives rank 0 an address that is not its host's: it fails at once.
func TestForeignAddress(t *testing.T) {
	t.Parallel()
	err := errOf(JoinAddress(context.Background(), "192.0.2.7:5000", 0, 2, quiet(), WithTimeout(time.Hour)))
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "192.0.2.7:5000 is not an address of host") ||
		!strings.Contains(err.Error(), "lo[127.0.0.1") {
		t.Error(err)
	}
	// With an interface an address translation is assumed: rank 0 tries, and notes it in the error.
	lines := &logBuffer{}
	err = errOf(JoinAddress(context.Background(), fmt.Sprintf("lo:192.0.2.7:%d", testutil.Port(t)), 0, 2,
		logged(lines), WithTimeout(200*time.Millisecond)))
	for _, said := range []string{fmt.Sprint(err), lines.String()} {
		if !errors.Is(err, ErrTimeout) || !strings.Contains(said, "it listens at 127.0.0.1:") {
			t.Errorf("not said: %s", said)
		}
	}
}

// TestRankZeroIsMissing: the others name rank 0, whether it never starts or dies first.
func TestRankZeroIsMissing(t *testing.T) {
	t.Parallel()
	var e *Error
	address := fmt.Sprintf("127.0.0.1:%d", testutil.Port(t))
	err := errOf(JoinAddress(context.Background(), address, 1, 2, quiet(), WithTimeout(200*time.Millisecond)))
	if !errors.Is(err, ErrTimeout) || !errors.As(err, &e) || e.Peer != 0 ||
		!strings.Contains(err.Error(), "rank 0, which listens at "+address) {
		t.Error(err)
	}
	vars := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t), "GOCCL_TIMEOUT=20"}
	ranks := []*child{startRank(t, "barrier", 0, 3, "", vars...), startRank(t, "barrier", 1, 3, "", vars...)}
	for _, r := range ranks {
		r.expect(t, "started", 30*time.Second)
	}
	time.Sleep(300 * time.Millisecond)
	ranks[0].kill()
	ranks[1].expect(t, "failed peer=0", 30*time.Second) // as dead, or as missing if it was killed too early
	ranks = append(ranks, startRank(t, "barrier", 2, 3, "", append(vars, "GOCCL_TIMEOUT=1")...))
	ranks[2].expect(t, "failed peer=0", 30*time.Second)
}

// TestKilledBeforeItComes: a rank that is killed before it has found the root is named by all others.
func TestKilledBeforeItComes(t *testing.T) {
	t.Parallel()
	// The others come within the timeout, however busy the machine is.
	vars := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t), "GOCCL_TIMEOUT=10"}
	var ranks []*child
	for r := range 3 {
		ranks = append(ranks, startRank(t, "barrier", r, 4, "", vars...))
	}
	for _, r := range ranks {
		if line := r.expect(t, "failed peer=3", time.Minute); !strings.Contains(line, "[3] have not come") {
			t.Errorf("rank %d: %s", r.rank, line)
		}
	}
}

// TestTheMakerOfAnIDIsNamed checks the error when the root of an id is gone.
func TestTheMakerOfAnIDIsNamed(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Close(); err != nil {
		t.Fatal(err)
	}
	err = errOf(JoinID(context.Background(), id, 1, 2, quiet()))
	if !errors.Is(err, ErrPeerDead) || !strings.Contains(err.Error(), ownOrigin().String()) {
		t.Error(err)
	}
}

// TestWeakSecretIsSaidOnce: the warning is logged once, and only where it applies.
func TestWeakSecretIsSaidOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		vars []string
		want int
	}{
		{"address", []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t), "GOCCL_SECRET="}, 1},
		{"secret", []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t)}, 0},
		{"unix socket", []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t), "TORCHELASTIC_RUN_ID=weak",
			"LOCAL_WORLD_SIZE=2", "GOCCL_SECRET="}, 0},
	} {
		ranks := []*child{startRank(t, "barrier", 0, 2, "", c.vars...), startRank(t, "barrier", 1, 2, "", c.vars...)}
		for _, r := range ranks {
			r.ended(t, time.Minute)
			if n := strings.Count(r.log.String(), "without GOCCL_SECRET"); n != c.want {
				t.Errorf("%s: rank %d says it %d times: %s", c.name, r.rank, n, r.log)
			}
		}
	}
}
