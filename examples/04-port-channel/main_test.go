package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccl/goccl/examples/internal/tutorialtest"
	"github.com/goccl/goccl/test/testutil"
)

func TestMain(m *testing.M) { tutorialtest.Main(m, main) }

func TestMeshOnOneHost(t *testing.T) {
	for _, transport := range []string{"ipc", "ethernet"} {
		out, ok := tutorialtest.Run(t, "-device", "host", "-ranks", "3", "-iterations", "3", "-bytes", "100001", "-transport",
			transport)
		if !ok || !strings.Contains(out, "Succeed!") {
			t.Fatalf("%s:\n%s", transport, out)
		}
	}
}

// Two network namespaces act as two hosts: shared memory does not work between them, so auto must choose ethernet.
func TestMeshAcrossHosts(t *testing.T) {
	a, b := testutil.Hosts(t)
	type result struct {
		out string
		ok  bool
	}
	results := make(chan result, 2)
	for rank, ns := range []string{a, b} {
		go func() {
			out, ok := tutorialtest.Command(t, []string{"ip", "netns", "exec", ns, "env", fmt.Sprintf("RANK=%d", rank),
				"WORLD_SIZE=2", "LOCAL_RANK=0",
				"LOCAL_WORLD_SIZE=1", "MASTER_ADDR=10.207.0.1", "MASTER_PORT=29777", "GOCCL_SECRET=only-for-this-test"},
				"-device", "host", "-iterations", "3", "-bytes", "300000")
			results <- result{out, ok}
		}()
	}
	success := 0
	for range 2 {
		r := <-results
		if !r.ok {
			t.Errorf("a rank failed:\n%s", r.out)
		}
		success += strings.Count(r.out, "Succeed!")
	}
	if success != 1 {
		t.Errorf("%d ranks report success, want rank 0 alone", success)
	}
}
