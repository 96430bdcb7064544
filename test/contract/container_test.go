package contract_test

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/goccl/goccl/test/commtest"
)

// TestContainersOfOneHost runs the matrix among ranks in separate namespaces, except for the network namespace: they
// share memory with each other.
func TestContainersOfOneHost(t *testing.T) {
	by := []string{"unshare", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if out, err := exec.Command(by[0], append(by[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v: %s", err, out)
	}
	named := func(name string) []string {
		return append(slices.Clone(by), "sh", "-c", "hostname "+name+`; exec "$0"`)
	}
	tk := commtest.Task{Do: "matrix", Size: 3, Victim: -1, By: map[int][]string{1: named("one"), 2: named("two")}}
	commtest.Start(t, tk).Await("done", commtest.Everyone(3), time.Minute)
}
