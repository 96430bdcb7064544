package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	ossignal "os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/testutil"
)

// TestMain runs the test binary as a launcher that can be killed. GOCCL_LAUNCH holds a shell script for two ranks. With
// GOCCL_LAUNCH_JOIN both ranks are the test binary, and join a job.
func TestMain(m *testing.M) {
	if os.Getenv("GOCCL_LAUNCH_JOIN") != "" {
		if err := meet(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if s := os.Getenv("GOCCL_LAUNCH"); s != "" {
		if err := Run(context.Background(), Options{N: 2, Program: []string{"sh", "-c", s}}); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func meet() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if os.Getenv("RANK") == "" {
		return Run(ctx, Options{N: 2, Program: []string{"/proc/self/exe"}})
	}
	env, err := bootstrap.FromEnv()
	if err != nil {
		return err
	}
	b, err := bootstrap.Join(ctx, env)
	if err != nil {
		return err
	}
	return errors.Join(b.Barrier(ctx), b.Close())
}

// A machine may have no IPv4 at all.
func TestOnlyIPv6(t *testing.T) {
	ns, _ := testutil.Hosts(t)
	for _, cmd := range []string{"link del " + testutil.Cable, "addr del 127.0.0.1/8 dev lo"} {
		if out, err := exec.Command("ip", append([]string{"-n", ns},
			strings.Fields(cmd)...)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", cmd, err, out)
		}
	}
	if out, err := exec.Command("ip", "-n", ns, "addr").Output(); err != nil || !bytes.Contains(out, []byte("::1/128")) {
		t.Skipf("no IPv6 here: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "ip", "netns", "exec", ns, self)
	cmd.Env = append(os.Environ(), "GOCCL_LAUNCH_JOIN=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// buffer is written by several ranks and read at the same time.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func sh(n int, script string) (Options, *buffer, *buffer) {
	out, errs := &buffer{}, &buffer{}
	return Options{N: n, Program: []string{"sh", "-c", script}, Stdout: out, Stderr: errs, Grace: 100 * time.Millisecond},
		out, errs
}

func TestEnvironmentAndOutput(t *testing.T) {
	t.Setenv("RANK", "77")
	t.Setenv("NCCL_COMM_ID", "stale:1")
	o, out,
		errs := sh(3,
		`echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR ${#GOCCL_SECRET} ${NCCL_COMM_ID-none}"
		echo "$MASTER_PORT $GOCCL_SECRET"; echo "err $RANK" >&2; printf "no end"`)
	if err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	shared := map[string]bool{}
	for r := range 3 {
		p := fmt.Sprintf("[%d] ", r)
		for _, want := range []string{fmt.Sprintf("%s%d 3 %d 3 127.0.0.1 64 none", p, r, r), p + "no end"} {
			if !slices.Contains(lines, want) {
				t.Errorf("no line %q in\n%s", want, out)
			}
		}
		if !strings.Contains(errs.String(), fmt.Sprintf("[%d] err %d\n", r, r)) {
			t.Errorf("stderr of rank %d: %s", r, errs)
		}
	}
	for _, l := range lines {
		if _, rest, _ := strings.Cut(l, " "); len(rest) > 60 {
			shared[rest] = true
		}
	}
	if len(lines) != 9 || len(shared) != 1 {
		t.Errorf("%d lines, %d different ports and secrets:\n%s", len(lines), len(shared), out)
	}
}

// Ranks join with the environment that they get.
func TestRanksJoin(t *testing.T) {
	t.Setenv("RANK", "")
	if err := Run(context.Background(), Options{
		N: 4, Program: []string{"/proc/self/exe"}, Env: append(os.Environ(), "GOCCL_LAUNCH_JOIN=1"),
	}); err != nil {
		t.Fatal(err)
	}
}

// The launcher ends with the first failure. It waits for none of the sleeps, which outlast the test.
func TestFirstFailure(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   ExitError
		status int
	}{
		"exit": {`[ $RANK = 2 ] && exit 7; sleep 3600`, ExitError{Rank: 2, Code: 7}, 7},
		"kill -9": {`[ $RANK = 1 ] && kill -9 $$; sleep 3600`, ExitError{Rank: 1, Code: -1, Signal: syscall.SIGKILL},
			137},
		"ignores SIGTERM": {`[ $RANK = 0 ] && exit 1; trap "" TERM; while :; do sleep 1; done`, ExitError{Rank: 0, Code: 1},
			1},
		"grandchildren": {`[ $RANK = 0 ] && { sleep 0.3; exit 4; }; sleep 3600 & sleep 3600 & wait`,
			ExitError{Rank: 0, Code: 4}, 4},
		"early success": {`[ $RANK = 0 ] && exit 0; [ $RANK = 1 ] && { sleep 0.2; exit 9; }; sleep 3600`,
			ExitError{Rank: 1, Code: 9}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, _, _ := sh(4, c.script)
			err := Run(context.Background(), o)
			var e *ExitError
			if !errors.As(err, &e) || *e != c.want || e.ExitCode() != c.status {
				t.Fatalf("got %#v (%v), want %#v", e, err, c.want)
			}
			if !strings.Contains(err.Error(), "rank "+strconv.Itoa(c.want.Rank)) {
				t.Fatal(err)
			}
		})
	}
}

func TestNoGrandchildStays(t *testing.T) {
	mark := fmt.Sprintf("7%d", os.Getpid())
	o, _, _ := sh(2, `sleep `+mark+` & exit 0`)
	if err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if left := commands(t, "sleep\x00"+mark); left > 0 {
		t.Fatalf("%d processes are left", left)
	}
}

// When the launcher ends for any reason, its ranks and their descendants end with it.
func TestLauncherKilled(t *testing.T) {
	for i, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGHUP, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			if signal == syscall.SIGHUP && ossignal.Ignored(signal) {
				t.Skip("SIGHUP is ignored here, as below nohup: a launcher inherits that")
			}
			mark := fmt.Sprintf("8%d%d", i, os.Getpid())
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), "GOCCL_LAUNCH=sleep "+mark+" & sh -c 'sleep "+mark+" & wait' & wait")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			within(t, "two ranks, each with two grandchildren", func() bool { return commands(t, "sleep\x00"+mark) == 4 })
			_ = cmd.Process.Signal(signal)
			_ = cmd.Wait()
			within(t, "nothing left", func() bool { return commands(t, "sleep\x00"+mark) == 0 })
		})
	}
}

func TestCancel(t *testing.T) {
	reason := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(context.Background())
	o, out, _ := sh(2, `trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	o.Grace = time.Minute // they end at once, but that may take time on a busy machine
	go func() {
		within(t, "start", func() bool { return strings.Count(out.String(), "up") == 2 })
		cancel(reason)
	}()
	if err := Run(ctx, o); !errors.Is(err, reason) {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "bye") != 2 {
		t.Fatalf("output:\n%s", out)
	}
}

func TestCannotStart(t *testing.T) {
	err := Run(context.Background(), Options{N: 2, Program: []string{"/nonexistent/program"}})
	var e *ExitError
	if !errors.As(err, &e) || !errors.Is(err, os.ErrNotExist) || e.ExitCode() != 127 {
		t.Fatal(err)
	}
	for _, o := range []Options{{N: 0, Program: []string{"true"}}, {N: 1}, {N: 1_000_000_000, Program: []string{"true"}}} {
		if err := Run(context.Background(), o); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	}
}

func TestLongLines(t *testing.T) {
	o, out, _ := sh(1, `head -c 200000 /dev/zero | tr '\0' x`)
	if err := Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "x"); n != 200000 || strings.Count(out.String(), "\n") != 4 {
		t.Fatalf("%d of 200000 bytes, %d lines", n, strings.Count(out.String(), "\n"))
	}
}

func TestNothingLeaks(t *testing.T) {
	count := func() (int, int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(fds)
	}
	run := func() {
		o, _, _ := sh(4, `[ $RANK = 0 ] && exit 3; sleep 5`)
		if err := Run(context.Background(), o); err == nil {
			t.Error("no error")
		}
	}
	run()
	g0, f0 := count()
	run()
	within(t, "the same number of goroutines and descriptors", func() bool {
		g, f := count()
		return g <= g0 && f <= f0
	})
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 3000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("not within half a minute: %s", what)
}

// commands counts running processes whose command line starts with prefix.
func commands(t *testing.T, prefix string) (n int) {
	t.Helper()
	procs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range procs {
		if b, err := os.ReadFile("/proc/" + p.Name() + "/cmdline"); err == nil && bytes.HasPrefix(b, []byte(prefix)) {
			n++
		}
	}
	return n
}
