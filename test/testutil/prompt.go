package testutil

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/setting"
)

// Prompt runs f, which returns the duration of an operation and reports errors itself. With GOCCL_FULL=1 it fails the
// test when the duration exceeds limit three times while the machine was not busy. Otherwise the duration is only
// logged: make test must pass on any machine, and its own tests keep one busy.
func Prompt(t testing.TB, limit time.Duration, f func() time.Duration) {
	t.Helper()
	if setting.Lenient().Full == "" {
		t.Logf("it took %v; the limit is %v", f(), limit)
		return
	}
	prompt(t, limit, f, idle)
}

// prompt lets the test pass where a busy machine may be why an operation is late.
func prompt(t testing.TB, limit time.Duration, f func() time.Duration, idle func() (idle, all uint64)) {
	t.Helper()
	for late := 1; ; late++ {
		idleBefore, allBefore := idle()
		took := f()
		idleAfter, allAfter := idle()
		if took <= limit || t.Failed() {
			t.Logf("it took %v", took)
			return
		}
		switch {
		case 3*(idleAfter-idleBefore) < allAfter-allBefore:
			t.Logf("it took %v, more than %v, on a busy machine", took, limit)
			return
		case late == 3:
			t.Errorf("it took %v, want at most %v, %d times on a machine that was not busy", took, limit, late)
			return
		}
	}
}

// idle returns the time that the processors were idle, and all their time, since the start of the machine: 0 if that is
// unknown.
func idle() (idle, all uint64) {
	b, _ := os.ReadFile("/proc/stat")
	var user, nice, system, rest, disk uint64
	if n, _ := fmt.Sscanf(string(b), "cpu %d %d %d %d %d", &user, &nice, &system, &rest, &disk); n < 5 {
		return 0, 0
	}
	return rest + disk, user + nice + system + rest + disk
}
