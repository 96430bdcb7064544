package hosts_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/testutil"
)

// TestPlugin runs all-reduces of two ranks on each of two hosts over a plugin of NCCL's network interface. It is
// forced: without it the ranks fail.
func TestPlugin(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "libnccl-net-sockets.so")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-DVERSION=11", "-o", file,
		"../../transport/plugin/testdata/sockets.c").CombinedOutput()
	if err != nil {
		t.Fatalf("cc: %v\n%s", err, out)
	}
	hosts := []int{0, 0, 1, 1}
	w := testutil.NewNetwork(t, 2)
	tk := commtest.Task{Do: "rounds", Rounds: 20, By: map[int][]string{}}
	for r, h := range hosts {
		tk.By[r] = []string{"env", "NCCL_NET_PLUGIN=" + file, "NCCL_NET=Sockets", "PLUGIN_ADDRESS=" + w.Address(h)}
	}
	start(t, w.Network, hosts, tk).Await("done", commtest.Everyone(len(hosts)), time.Minute)
}

// TestMissingPlugin names a plugin that is not there: each host says so once, and the ranks use TCP.
func TestMissingPlugin(t *testing.T) {
	t.Parallel()
	hosts := []int{0, 0, 1}
	w := testutil.NewNetwork(t, 2)
	tk := commtest.Task{Do: "rounds", Rounds: 3, By: map[int][]string{}}
	for r := range hosts {
		tk.By[r] = []string{"env", "NCCL_NET_PLUGIN=/nowhere/libnccl-net.so"}
	}
	j := start(t, w.Network, hosts, tk)
	j.Await("done", commtest.Everyone(len(hosts)), time.Minute)
	j.Close() // logs are complete behind it
	for r, want := range []bool{true, false, true} {
		if strings.Contains(j.Log(r), "NCCL_NET_PLUGIN") != want {
			t.Errorf("rank %d: %s", r, j.Log(r))
		}
	}
}
