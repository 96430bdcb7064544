//go:build cgo && linux

package main

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestSuite(t *testing.T) {
	exe := program(t, "suite")
	for _, mode := range [][]string{{"all", "1"}, {"all", "4"}, {"threads", "2"}, {"threads", "4"}, {"group", "3"}} {
		t.Run(strings.Join(mode, " "), func(t *testing.T) { run(t, environment(t), append([]string{exe}, mode...)...) })
	}
	t.Run("process 4", func(t *testing.T) { processes(t, exe, 4, -1, "process", "4") })
	t.Run("hosts 3 + 1", func(t *testing.T) { onHosts(t, exe, []int{0, 0, 0, 1}, -1, "process", "4") })
}

func TestUsage(t *testing.T)     { run(t, environment(t), program(t, "usage")) }
func TestHandles(t *testing.T)   { run(t, environment(t), program(t, "handles")) }
func TestLifecycle(t *testing.T) { run(t, environment(t), program(t, "lifecycle")) }
func TestInterpose(t *testing.T) { run(t, environment(t), program(t, "interpose")) }
func TestLeaks(t *testing.T)     { run(t, environment(t), program(t, "leak"), "200") }
func TestDeath(t *testing.T)     { processes(t, program(t, "death"), 4, 1, "4") }

// TestDeathOnAnotherHost kills a rank that is on another host than some of the survivors.
func TestDeathOnAnotherHost(t *testing.T) {
	onHosts(t, program(t, "death"), []int{0, 1, 1, 0}, 1, "4")
}

func TestOrphan(t *testing.T) { processes(t, program(t, "orphan"), 2, 1, "3") }

// A rank that dies in ncclCommSplit is named by every other.
func TestDeathInSplit(t *testing.T) {
	exe := program(t, "splitdeath")
	for range 20 {
		processes(t, exe, 4, 1)
	}
}

// Finalize, Destroy, Abort and Revoke from any thread, in groups, twice and after errors.
func TestRandomLifecycle(t *testing.T) {
	rounds := "40"
	if os.Getenv("GOCCL_FULL") != "" {
		rounds = "2000"
	}
	run(t, environment(t, "GOCCL_TIMEOUT=20s", "GOCCL_OP_TIMEOUT=2s"), program(t, "random"),
		strconv.FormatUint(uint64(rand.Uint32()), 10), rounds)
}

// A rank that leaves after its work is not reported as dead, and does not fail when peers leave after its work.
func TestGoodbye(t *testing.T) {
	exe := program(t, "goodbye")
	for _, how := range []string{"destroy", "exit", "nonblocking", "abort", "kill"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			processes(t, exe, 3, 0, how)
		})
	}
}

func TestContexts(t *testing.T) { onMock(t, "context") }

func TestGraphUsageMode(t *testing.T) { onMock(t, "graphs") }
