package hosts_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/test/badnet"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/testutil"
)

// TestInterfaceThatLeadsNowhere: each host has a second interface, which its second rank would take. All ranks use the
// one over which they have met, and rank 0 says so.
func TestInterfaceThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	hosts := []int{0, 0, 1, 1}
	w := testutil.NewNetwork(t, 2)
	for i, ns := range w.Hosts {
		if err := badnet.Aside(ns, i); err != nil {
			t.Fatal(err)
		}
	}
	j := start(t, w.Network, hosts, commtest.Task{Do: "rounds", Rounds: 5})
	j.Await("done", commtest.Everyone(len(hosts)), time.Minute)
	j.Close() // logs are complete behind it
	for _, want := range []string{"aside", "does not reach", "NCCL_SOCKET_IFNAME"} {
		if !strings.Contains(j.Log(0), want) {
			t.Errorf("rank 0 does not say %q: %s", want, j.Log(0))
		}
	}
}

// TestOnlyIPv6OnOneHost: one host has both families, the other one only IPv6.
func TestOnlyIPv6OnOneHost(t *testing.T) {
	t.Parallel()
	w := testutil.NewNetwork(t, 2)
	for _, args := range []string{"-n " + w.Hosts[0] + " addr add fd00:207::1/64 dev cable nodad",
		"-n " + w.Hosts[1] + " addr flush dev cable", "-n " + w.Hosts[1] + " addr add fd00:207::2/64 dev cable nodad"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Skipf("ip %s: %v: %s", args, err, out)
		}
	}
	tk := commtest.Task{Do: "rounds", Rounds: 5, Size: 4, Address: "[fd00:207::1]:20000", Victims: []int{}, Victim: -1,
		By: map[int][]string{}}
	for r := range tk.Size {
		tk.By[r] = w.On(r % 2)
	}
	commtest.Start(t, tk).Await("done", commtest.Everyone(tk.Size), time.Minute)
}
