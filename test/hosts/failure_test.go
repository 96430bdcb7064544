package hosts_test

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/netns"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/testutil"
)

// TestProcessesOnHosts runs the matrix in processes on several hosts, also with different numbers of ranks.
func TestProcessesOnHosts(t *testing.T) {
	t.Parallel()
	layouts := [][]int{{2, 2, 1}}
	if setting.Lenient().Full != "" {
		layouts = append(layouts, []int{8, 8}, []int{4, 4, 4, 4}, []int{1, 8, 2, 3})
	}
	for _, ranks := range layouts {
		t.Run(fmt.Sprint(ranks), func(t *testing.T) {
			var hosts []int
			for h, n := range ranks {
				hosts = append(hosts, slices.Repeat([]int{h}, n)...)
			}
			w := testutil.NewNetwork(t, len(ranks))
			start(t, w.Network, hosts, commtest.Task{Do: "matrix"}).Await("done", commtest.Everyone(len(hosts)), 2*time.Minute)
		})
	}
}

// failing starts traffic of two ranks on each of two hosts, breaks something, and returns when the ranks of survivors
// have failed and the time since the break.
func failing(t *testing.T, victims []int, break_ func(w *testutil.Network, j *commtest.Job)) map[int]commtest.Report {
	t.Helper()
	return failingAs(t, commtest.Task{Victims: victims}, break_)
}

func failingAs(t *testing.T, tk commtest.Task, break_ func(w *testutil.Network, j *commtest.Job),
) map[int]commtest.Report {
	t.Helper()
	victims := tk.Victims
	tk.Do = cmp.Or(tk.Do, "traffic")
	hosts := []int{0, 0, 1, 1}
	w := testutil.NewNetwork(t, 2)
	j := start(t, w.Network, hosts, tk)
	j.Await("running", commtest.Everyone(len(hosts)), time.Minute)
	begun := time.Now()
	break_(w, j)
	survivors := slices.DeleteFunc(commtest.Everyone(len(hosts)), func(r int) bool { return slices.Contains(victims, r) })
	errs := j.Await("error", survivors, time.Minute)
	for r, e := range errs {
		t.Logf("rank %d after %v: %s", r, time.Unix(0, e.At).Sub(begun).Round(time.Millisecond), e.Text)
	}
	j.Await("done", survivors, time.Minute)
	return errs
}

// TestKilledRemoteRank kills one rank: all others name it, and go on without it.
func TestKilledRemoteRank(t *testing.T) {
	t.Parallel()
	errs := failing(t, []int{3}, func(_ *testutil.Network, j *commtest.Job) { j.Signal(3, syscall.SIGKILL) })
	for r, e := range errs {
		if e.Peer != 3 || e.Kind != goccl.ErrPeerDead.Error() {
			t.Errorf("rank %d: %+v", r, e)
		}
	}
}

// TestKilledHost kills all ranks of a host.
func TestKilledHost(t *testing.T) {
	t.Parallel()
	errs := failing(t, []int{2, 3}, func(_ *testutil.Network, j *commtest.Job) {
		j.Signal(2, syscall.SIGKILL)
		j.Signal(3, syscall.SIGKILL)
	})
	for r, e := range errs {
		if e.Peer != 2 && e.Peer != 3 || e.Kind != goccl.ErrPeerDead.Error() {
			t.Errorf("rank %d: %+v", r, e)
		}
	}
}

// TestPartition cuts the network silently: each side names ranks of the other, and goes on alone.
func TestPartition(t *testing.T) {
	t.Parallel()
	errs := failing(t, nil, func(w *testutil.Network, _ *commtest.Job) { w.Port(1, "down") })
	for r, e := range errs {
		if e.Peer/2 == r/2 || e.Kind != goccl.ErrPeerDead.Error() {
			t.Errorf("rank %d: %+v", r, e)
		}
	}
}

// recovering runs checked all-reduces of two ranks on each of two hosts over a network that disturb makes worse: all of
// them succeed.
func recovering(t *testing.T, tk commtest.Task, disturb func(w *testutil.Network, j *commtest.Job)) {
	t.Helper()
	w := testutil.NewNetwork(t, 2)
	tk.Do = "rounds"
	j := start(t, w.Network, []int{0, 0, 1, 1}, tk)
	j.Await("running", commtest.Everyone(4), time.Minute)
	disturb(w, j)
	j.Await("done", commtest.Everyone(4), 2*time.Minute)
}

// many rounds last longer than it takes to disturb them.
const many = 300 / commtest.Slowness

// TestLoss loses 30 % of the packets in one direction. TCP may come through, or give up after three seconds without an
// acknowledgement: then all ranks get an error that names a rank.
func TestLoss(t *testing.T) {
	t.Parallel()
	recovering(t, commtest.Task{Rounds: 12, Exit: true}, func(w *testutil.Network, _ *commtest.Job) { w.Lose(1, 0.3) })
}

// TestDelay delays every packet by 200 ms: that is no failure.
func TestDelay(t *testing.T) {
	t.Parallel()
	a, b, line := testutil.HostsOnLine(t)
	tk := commtest.Task{Do: "rounds", Rounds: 6}
	j := start(t, &netns.Network{Hosts: []string{a, b}}, []int{0, 0, 1, 1}, tk)
	j.Await("running", commtest.Everyone(4), time.Minute)
	line.Bad(0, 200*time.Millisecond)
	j.Await("done", commtest.Everyone(4), time.Minute)
}

// TestInterfaceDownAndUp takes an interface down for less than the deadline of a partition.
func TestInterfaceDownAndUp(t *testing.T) {
	t.Parallel()
	recovering(t, commtest.Task{Rounds: many}, func(w *testutil.Network, _ *commtest.Job) {
		w.Interface(1, "down")
		time.Sleep(500 * time.Millisecond)
		w.Interface(1, "up")
	})
}

// TestBlip cuts the network silently, and connects it again somewhat before GOCCL_BLIP: what was lost is sent again,
// and no rank counts as dead.
func TestBlip(t *testing.T) {
	t.Parallel()
	blips := []time.Duration{setting.DefaultBlip}
	if setting.Lenient().Full != "" {
		blips = append(blips, time.Second, 10*time.Second)
	}
	for _, blip := range blips {
		t.Run(blip.String(), func(t *testing.T) {
			t.Parallel()
			tk := commtest.Task{Rounds: many, By: map[int][]string{}}
			for r := range 4 {
				tk.By[r] = []string{"env", "GOCCL_BLIP=" + blip.String()}
			}
			recovering(t, tk, func(w *testutil.Network, _ *commtest.Job) {
				w.Port(1, "down")
				time.Sleep(blip - 200*time.Millisecond)
				w.Port(1, "up")
			})
		})
	}
}

// TestStoppedForAWhile stops a rank: that is no failure.
func TestStoppedForAWhile(t *testing.T) {
	t.Parallel()
	recovering(t, commtest.Task{Rounds: many}, func(_ *testutil.Network, j *commtest.Job) {
		j.Signal(3, syscall.SIGSTOP)
		time.Sleep(time.Second)
		j.Signal(3, syscall.SIGCONT)
	})
}

// TestStoppedRank stops a rank for longer than OpTimeout: all others name it and go on without it, also those that wait
// for a rank that waits for it.
func TestStoppedRank(t *testing.T) {
	t.Parallel()
	for victim := range 4 {
		if testing.Short() && victim%3 != 0 {
			continue // the first rank and the last
		}
		t.Run(fmt.Sprint(victim), func(t *testing.T) {
			t.Parallel()
			tk := commtest.Task{Victims: []int{victim}, OpTimeout: 3 * time.Second * commtest.Slowness}
			errs := failingAs(t, tk, func(_ *testutil.Network, j *commtest.Job) {
				j.Signal(victim, syscall.SIGSTOP)
			})
			for r, e := range errs {
				if e.Peer != victim || e.Kind != goccl.ErrTimeout.Error() {
					t.Errorf("rank %d: %+v", r, e)
				}
			}
		})
	}
}

// TestReset resets all connections of a host, including the bootstrap's, again and again: they are made anew, and what
// was lost is sent again.
func TestReset(t *testing.T) {
	t.Parallel()
	recovering(t, commtest.Task{Rounds: many}, func(w *testutil.Network, _ *commtest.Job) {
		for range 4 {
			w.Reset(1)
			time.Sleep(100 * time.Millisecond)
		}
	})
}
