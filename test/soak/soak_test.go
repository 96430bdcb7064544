package soak_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/leak"
)

// TestSoak runs tutorials 01 to 04 two hundred times each, or GOCCL_SOAK times if that is more than 1. After each run
// it checks that nothing is left on the machine: processes, sockets, shared memory. GOCCL_SOAK_DEVICE selects the
// device; the default is host.
//
//	GOCCL_SOAK=1 go test -run TestSoak -timeout 30m -v ./test/soak
func TestSoak(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv("GOCCL_SOAK"))
	if err != nil || runs < 1 {
		t.Skip("set GOCCL_SOAK=1 to run the tutorials two hundred times")
	}
	if runs == 1 {
		runs = 200
	}
	kind := os.Getenv("GOCCL_SOAK_DEVICE")
	if kind == "" {
		kind = "host"
	}
	dir := t.TempDir()
	commtest.NoLeak(t)
	for _, name := range []string{"01-basic-concepts", "02-bootstrap", "03-memory-channel", "04-port-channel"} {
		exe := filepath.Join(dir, name)
		if out, err := exec.Command("go", "build", "-o", exe, "../../examples/"+name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var times []time.Duration
		for i := range runs {
			watch := leak.NewWatch(20 * time.Millisecond)
			took, err := soakOnce(exe, kind)
			if e := leftOver(exe, watch); err == nil {
				err = e
			}
			if err != nil {
				t.Fatalf("%s, run %d: %v", name, i+1, err)
			}
			times = append(times, took)
		}
		slices.Sort(times)
		t.Logf("%-18s %d runs on %s: all succeeded, nothing left; median %v, slowest %v", name, runs, kind,
			times[runs/2].Round(time.Millisecond),
			times[runs-1].Round(time.Millisecond))
	}
}

func soakOnce(exe, kind string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := time.Now()
	cmd := exec.CommandContext(ctx, exe, "-device", kind)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("no end within a minute\n%s", out)
	case err != nil:
		return 0, fmt.Errorf("%w\n%s", err, out)
	case !strings.Contains(string(out), "Succeed!"):
		return 0, fmt.Errorf("no success\n%s", out)
	}
	return time.Since(start), nil
}

// leftOver checks for leftovers of processes of exe.
func leftOver(exe string, watch *leak.Watch) error {
	err := watch.Leftovers()
	procs, globErr := filepath.Glob("/proc/[0-9]*/exe")
	for _, p := range procs {
		if link, e := os.Readlink(p); e == nil && link == exe {
			err = errors.Join(err, fmt.Errorf("process %s is left", p))
		}
	}
	return errors.Join(err, globErr)
}
