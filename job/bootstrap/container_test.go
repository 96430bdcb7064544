package bootstrap

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// container returns a command prefix that starts a program in new namespaces, with a different host name if UTS is
// among them.
func container(t *testing.T, kinds ...string) []string {
	t.Helper()
	by := []string{"unshare"}
	for _, k := range kinds {
		by = append(by, "--"+k)
	}
	if out, err := exec.Command(by[0], append(by[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v: %s", err, out)
	}
	name := "true"
	if strings.Contains(strings.Join(kinds, " "), "uts") {
		name = "hostname container-of-" + kinds[0]
	}
	return append(by, "sh", "-c", name+`; exec "$0"`)
}

// TestContainersOfOneHost: ranks share memory if they can connect by a unix socket, whatever their hosts' names are.
func TestContainersOfOneHost(t *testing.T) {
	t.Parallel()
	vars := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t)}
	ranks := []*child{
		startRankBy(t, nil, "watch", 0, 3, vars...),
		startRankBy(t, container(t, "uts", "ipc"), "watch", 1, 3, vars...),
		startRankBy(t, container(t, "ipc", "uts", "mount"), "watch", 2, 3, vars...),
	}
	for _, r := range ranks {
		r.expect(t, "joined [0 0 0]", 30*time.Second)
	}
	ranks[2].kill()
	for _, r := range ranks[:2] {
		r.expect(t, "failed peer=2 dead=true", 30*time.Second)
	}
}

// TestContainersApart: ranks of one machine in separate network namespaces are on several hosts; a contradicting host
// id is an error.
func TestContainersApart(t *testing.T) {
	t.Parallel()
	a, b := testutil.Hosts(t)
	start := func(port string, vars ...string) []*child {
		vars = append(vars, "MASTER_ADDR=10.207.0.1", "MASTER_PORT="+port)
		var ranks []*child
		for r, ns := range []string{a, a, b} {
			ranks = append(ranks, startRank(t, "barrier", r, 3, ns, vars...))
		}
		return ranks
	}
	for _, r := range start("20200") {
		r.expect(t, "joined [0 0 1]", 30*time.Second)
		r.expect(t, "done", 30*time.Second)
	}
	for i, name := range []string{"GOCCL_HOSTID", "NCCL_HOSTID"} {
		ranks := start([]string{"20201", "20202"}[i], name+"=same")
		line, _ := ranks[2].last(t)
		for _, s := range []string{"failed", name, "network namespace"} {
			if !strings.Contains(line, s) {
				t.Errorf("rank 2 does not say %q: %s", s, line)
			}
		}
		for _, r := range ranks[:2] {
			if line, _ := r.last(t); !strings.Contains(line, "network namespace") {
				t.Errorf("rank %d: %s", r.rank, line)
			}
		}
	}
}

// TestToldHosts: ranks with different host ids count as on several hosts.
func TestToldHosts(t *testing.T) {
	t.Parallel()
	vars := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t)}
	ranks := []*child{
		startRank(t, "barrier", 0, 3, "", append(vars, "NCCL_HOSTID=x")...),
		startRank(t, "barrier", 1, 3, "", vars...),
		startRank(t, "barrier", 2, 3, "", append(vars, "GOCCL_HOSTID=x", "NCCL_HOSTID=y")...),
	}
	for _, r := range ranks {
		r.expect(t, "joined [0 1 0]", 30*time.Second)
	}
}

// TestOtherHost names the first rank on another host, and the remedy.
func TestOtherHost(t *testing.T) {
	l := NewLocalHosts([]int{0, 0, 1})
	defer closeAll(l.Ranks)
	if r, err := OtherHost(l.Ranks[0]); r != 2 || err == nil || !strings.Contains(err.Error(), "network namespace") {
		t.Errorf("rank %d, %v", r, err)
	}
	if r, err := OtherHost(NewLocalGroup(3)[1]); r != -1 || err != nil {
		t.Errorf("rank %d, %v", r, err)
	}
}
