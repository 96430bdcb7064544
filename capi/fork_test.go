//go:build cgo && linux

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// A child that a rank has forked must not hide the rank's death from peers that detect it only by their connection, as
// ranks of another host do.
func TestAForkedChildHidesNoDeath(t *testing.T) {
	dir := libraries(t)
	exe := filepath.Join(t.TempDir(), "forked")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", exe,
		filepath.Join("testdata", "forked.c"),
		"-ldl").CombinedOutput(); err != nil {
		t.Fatalf("forked.c: %v\n%s", err, out)
	}
	testutil.Prompt(t, 2*time.Second, func() time.Duration {
		address := fmt.Sprintf("127.0.0.1:%d", testutil.Port(t))
		var ranks [2]*exec.Cmd
		var lines [2]*bufio.Scanner
		for r := range ranks {
			ranks[r] = command(t, environment(t, fmt.Sprintf("GOCCL_HOSTID=host-%d", r), "GOCCL_SECRET=forked"), exe,
				filepath.Join(dir, "libgoccl.so"),
				address, strconv.Itoa(r))
			out, err := ranks[r].StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := ranks[r].Start(); err != nil {
				t.Fatal(err)
			}
			lines[r] = bufio.NewScanner(out)
		}
		next := func(r int) string {
			if !lines[r].Scan() {
				t.Fatalf("rank %d says nothing more: %v", r, lines[r].Err())
			}
			return lines[r].Text()
		}
		if s := next(0); s != "waiting" {
			t.Fatal(s)
		}
		var child int
		if s := next(1); len(s) < 8 || s[:7] != "forked " {
			t.Fatal(s)
		} else if n, err := strconv.Atoi(s[7:]); err != nil {
			t.Fatal(s)
		} else {
			child = n
		}
		defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
		killed := time.Now()
		_ = ranks[1].Process.Kill()
		said := next(0)
		took := time.Since(killed)
		if err := syscall.Kill(child, 0); err != nil {
			t.Errorf("the child is gone, so nothing was shown: %v", err)
		}
		if !strings.Contains(said, "has died") {
			t.Errorf("rank 0 says %q", said)
		}
		_ = syscall.Kill(child, syscall.SIGKILL)
		_, _ = ranks[0].Wait(), ranks[1].Wait()
		return took
	})
}
