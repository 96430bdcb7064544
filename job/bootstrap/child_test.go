package bootstrap

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// child is one rank in its own process.
type child struct {
	rank  int
	cmd   *exec.Cmd
	lines chan string
	log   *logBuffer // of standard error, complete when the process has ended
}

func startRank(t *testing.T, what string, rank, world int, namespace string, vars ...string) *child {
	t.Helper()
	var by []string
	if namespace != "" {
		by = []string{"ip", "netns", "exec", namespace}
	}
	return startRankBy(t, by, what, rank, world, vars...)
}

// startRankBy starts a rank through a program whose last argument is the rank's program.
func startRankBy(t *testing.T, by []string, what string, rank, world int, vars ...string) *child {
	t.Helper()
	own := []string{"GOCCL_TEST_RANK=" + what, "RANK=" + strconv.Itoa(rank), "WORLD_SIZE=" + strconv.Itoa(world),
		"GOCCL_SECRET=test"}
	return startChild(t, by, rank, nil, append(own, vars...)...)
}

// startChild starts this test binary; variables select its role.
func startChild(t *testing.T, by []string, rank int, stdin io.Reader, vars ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	by = append(slices.Clone(by), self)
	c := &child{rank: rank, lines: make(chan string, 16), cmd: exec.Command(by[0], by[1:]...)}
	c.cmd.Env, c.cmd.Stdin = append(os.Environ(), vars...), stdin
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.log = &logBuffer{}
	c.cmd.Stderr = c.log
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.end()
		if t.Failed() {
			t.Logf("rank %d: %s", rank, c.log)
		}
	})
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
		close(c.lines)
	}()
	return c
}

// end kills the process if it has not ended, and waits for it. Its process id is not reused before that.
func (c *child) end() {
	if c.cmd.ProcessState == nil {
		c.kill()
		_ = c.cmd.Wait()
	}
}

// ended waits until the process ends by itself.
func (c *child) ended(t *testing.T, within time.Duration) {
	t.Helper()
	timeout := time.After(within)
	for {
		select {
		case _, more := <-c.lines:
			if !more {
				_ = c.cmd.Wait()
				return
			}
		case <-timeout:
			t.Errorf("rank %d does not end", c.rank)
			c.end()
			return
		}
	}
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

func (c *child) signal(s syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, s) }

// expect reads lines until one starts with prefix.
func (c *child) expect(t *testing.T, prefix string, within time.Duration) string {
	t.Helper()
	within *= 4 // a machine may be busy
	timeout := time.After(within)
	for {
		select {
		case l, ok := <-c.lines:
			if !ok {
				t.Fatalf("rank %d ended without saying %q", c.rank, prefix)
			}
			if strings.HasPrefix(l, prefix) {
				return l
			}
			if strings.HasPrefix(l, "failed") || strings.HasPrefix(l, "done") {
				t.Fatalf("rank %d: %s (waiting for %q)", c.rank, l, prefix)
			}
		case <-timeout:
			t.Fatalf("rank %d did not say %q within %v", c.rank, prefix, within)
		}
	}
}

// last returns the final line, or the error output if there is none.
func (c *child) last(t *testing.T) (line string, ended bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case l, more := <-c.lines:
			if !more {
				return line, true
			}
			line = l
		case <-timeout:
			return line, false
		}
	}
}

func portString(t *testing.T) string { return strconv.Itoa(testutil.Port(t)) }
