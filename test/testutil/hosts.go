package testutil

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/goccl/goccl/internal/netns"
)

// Cable is the name of the interface that connects the two hosts of Hosts, at both ends.
const Cable = netns.Cable

var hostCount atomic.Int32

// Hosts makes two connected network namespaces, with the addresses 10.207.0.1 and 10.207.0.2, and returns their names
// for "ip netns exec". If that is not permitted, it skips the test with the reason.
func Hosts(t testing.TB) (a, b string) {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip: ", err)
	}
	name := fmt.Sprintf("goccl%d-%d", os.Getpid(), hostCount.Add(1))
	a, b = name+"a", name+"b"
	for i, cmd := range []string{
		"netns add " + a, "netns add " + b,
		fmt.Sprintf("-n %s link add %s type veth peer name %s netns %s", a, Cable, Cable, b),
		"-n " + a + " addr add 10.207.0.1/24 dev " + Cable, "-n " + b + " addr add 10.207.0.2/24 dev " + Cable,
		"-n " + a + " link set " + Cable + " up", "-n " + b + " link set " + Cable + " up", "-n " + a + " link set lo up",
		"-n " + b + " link set lo up",
	} {
		if out, err := exec.Command("ip", strings.Fields(cmd)...).CombinedOutput(); err != nil {
			for _, ns := range []string{a, b} {
				_ = exec.Command("ip", "netns", "del", ns).Run()
			}
			t.Skipf("no network namespaces here: step %d: ip %s: %v: %s", i, cmd, err, out)
		}
	}
	t.Cleanup(func() {
		for _, ns := range []string{a, b} {
			if out, err := exec.Command("ip", "netns", "del", ns).CombinedOutput(); err != nil {
				t.Errorf("ip netns del %s: %v: %s", ns, err, out)
			}
		}
	})
	return a, b
}
