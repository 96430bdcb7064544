package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/testutil"
)

// quorum runs all-reduces until a failure, and shrinks. It goes on with the others of its part if they have a quorum.
func quorum(k *commtest.Process) error { return shrinking(k, nil) }

// voted is quorum with an external vote: the part that creates a file first goes on. The file has the ranks of the
// part, so that the others of the part find their own vote.
func voted(k *commtest.Process) error {
	return shrinking(k, func(_ context.Context, id uint64, left []int) error {
		file := filepath.Join(os.Getenv("GOCCL_TEST_VOTES"), fmt.Sprintf("%x", id))
		mine := fmt.Sprint(left)
		draft := fmt.Sprint(file, k.Rank)
		if err := os.WriteFile(draft, []byte(mine), 0o600); err != nil {
			return err
		}
		if err := os.Link(draft, file); err != nil && !os.IsExist(err) {
			return err
		}
		won, err := os.ReadFile(file)
		if err == nil && string(won) != mine {
			err = fmt.Errorf("ranks %s go on", won)
		}
		return err
	})
}

func shrinking(k *commtest.Process, vote func(context.Context, uint64, []int) error) error {
	c, err := goccl.NewComm(context.Background(), goccl.Config{Bootstrap: k.Boot, Device: k.Device, Vote: vote})
	if err != nil {
		return err
	}
	u, err := commtest.NewSums(c)
	if err != nil {
		return err
	}
	for i := 0; err == nil; i++ {
		if i == 5 {
			k.Say("running", nil)
		}
		err = u.Once(3)
	}
	k.Say("error", err)
	var small *goccl.Comm
	for tries := 0; ; tries++ { // a rank that dies during Shrink may make it fail
		small, err = c.Shrink(context.Background(), nil, true)
		if err == nil || errors.Is(err, goccl.ErrNoQuorum) || tries == 10 {
			break
		}
	}
	if errors.Is(err, goccl.ErrNoQuorum) && errors.Is(err, goccl.ErrAborted) {
		k.Say("refused", err)
		return errors.Join(u.Close(), c.Close())
	}
	if err != nil {
		return err
	}
	v, err := commtest.NewSums(small)
	if err != nil {
		return err
	}
	if err = v.Once(3); err != nil && !k.Exit {
		return fmt.Errorf("shrunk: %w", err)
	}
	k.Say("shrunk", nil)
	return errors.Join(v.Close(), u.Close(), small.Close(), c.Close())
}

// parted starts ranks on hosts[r] of two hosts, with a rule, cuts the network while they work, and kills victim, if it
// is a rank, some time later. It returns the ranks that went on. Each other one that was not killed was refused.
func parted(t *testing.T, do, rule string, hosts []int, victim int, after time.Duration) (on []int) {
	t.Helper()
	w := testutil.NewNetwork(t, 2)
	tk := commtest.Task{Do: do, Exit: victim >= 0, By: map[int][]string{}}
	votes := t.TempDir()
	for r := range hosts {
		tk.By[r] = []string{"env", "GOCCL_QUORUM=" + rule, "GOCCL_TEST_VOTES=" + votes}
	}
	survivors := commtest.Others(len(hosts), victim)
	if victim >= 0 {
		tk.Victims = []int{victim}
	}
	j := start(t, w.Network, hosts, tk)
	j.Await("running", commtest.Everyone(len(hosts)), time.Minute)
	w.Port(1, "down")
	if victim >= 0 {
		time.Sleep(after)
		_, _ = j.Job.Signal(victim, syscall.SIGKILL) // it may have ended
	}
	j.Await("done", survivors, time.Minute)
	refused := 0
	for _, s := range j.Said() {
		switch {
		case s.Rank == victim:
		case s.Event == "shrunk":
			on = append(on, s.Rank)
		case s.Event == "refused":
			refused++
			if s.Peer < 0 && do == "quorum" || s.Op != "shrink" || s.Kind != goccl.ErrNoQuorum.Error() ||
				!strings.Contains(s.Text, "must not go on") {
				t.Errorf("%+v", s)
			}
		}
	}
	slices.Sort(on)
	if refused != len(survivors)-len(on) {
		t.Errorf("of ranks %v %v went on, and %d were refused", survivors, on, refused)
	}
	return on
}

// TestQuorum cuts the network of a job: by the rule one part goes on, and each rank of the other gets an error.
func TestQuorum(t *testing.T) {
	t.Parallel()
	even, uneven := []int{0, 0, 1, 1}, []int{0, 0, 0, 1}
	for i, c := range []struct {
		do, rule string
		hosts    []int
		victim   int
		want     []int
	}{
		{"quorum", "off", even, -1, []int{0, 1, 2, 3}},
		{"quorum", "majority", even, -1, []int{0, 1}},
		{"quorum", "majority", uneven, -1, []int{0, 1, 2}},
		{"quorum", "majority", []int{0, 1, 1, 1}, -1, []int{1, 2, 3}},
		{"quorum", "rank 3", even, -1, []int{2, 3}},
		{"quorum", "rank 3", uneven, -1, []int{3}},
		{"quorum", "majority", uneven, 1, []int{0, 2}}, // half, with the lowest rank
		{"quorum", "majority", uneven, 0, nil},         // neither part is more than half, or has the lowest rank
		{"quorum", "rank 3", even, 3, nil},
		{"vote", "off", even, -1, []int{0, 1}}, // or the other part
		{"vote", "majority", even, -1, []int{0, 1}},
	} {
		if testing.Short() && i%4 != 1 {
			continue // a majority, a named rank and a vote
		}
		t.Run(fmt.Sprint(c.do, " ", c.rule, c.hosts, c.victim), func(t *testing.T) {
			t.Parallel()
			on := parted(t, c.do, c.rule, c.hosts, c.victim, 0)
			if !slices.Equal(on, c.want) && (c.do != "vote" || c.rule != "off" || !slices.Equal(on, []int{2, 3})) {
				t.Errorf("ranks %v went on, want %v", on, c.want)
			}
		})
	}
}

// TestQuorumWithAKill cuts the network and kills a rank about when the others find out and shrink: one part goes on at
// most, and all of it that lives.
func TestQuorumWithAKill(t *testing.T) {
	t.Parallel()
	rounds := 3
	if setting.Lenient().Full != "" {
		rounds = 30
	}
	rng := rand.New(rand.NewPCG(1, 36))
	for i := range rounds {
		hosts := [][]int{{0, 0, 1, 1}, {0, 0, 0, 1}}[i%2]
		rule := []string{"majority", "rank 1"}[rng.IntN(2)]
		victim, after := rng.IntN(4), setting.Unreachable(0)+time.Duration(rng.IntN(900)-200)*time.Millisecond
		t.Run(fmt.Sprint(rule, hosts, victim, after), func(t *testing.T) {
			t.Parallel()
			on := parted(t, "quorum", rule, hosts, victim, after)
			var part []int
			for r, h := range hosts {
				if r != victim && len(on) > 0 && h == hosts[on[0]] {
					part = append(part, r)
				}
			}
			if !slices.Equal(on, part) {
				t.Errorf("ranks %v went on, of the part %v", on, part)
			}
		})
	}
}
