package bootstrap

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// TestMain lets the test binary be a rank: GOCCL_TEST_RANK contains the action after joining.
func TestMain(m *testing.M) {
	if os.Getenv(largeVariable) != "" {
		sparseStart = 1
	}
	if what := os.Getenv(attackVariable); what != "" {
		fmt.Println("failed:", attackMain(what))
		os.Exit(1)
	}
	if what := os.Getenv(manyVariable); what != "" {
		fmt.Println("failed:", manyMain(what))
		os.Exit(1)
	}
	if what := os.Getenv("GOCCL_TEST_RANK"); what != "" {
		if err := restrict(); err != nil {
			fmt.Println("failed: restrict:", err)
			os.Exit(2)
		}
		os.Exit(rankMain(what))
	}
	// Parallel tests mostly wait for deadlines.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// rankMain joins, prints "joined", and executes its action. Its last line is "done", or "failed" with details.
func rankMain(what string) int {
	report := func(err error) int {
		if err == nil {
			fmt.Println("done")
			return 0
		}
		peer := -1
		var e *Error
		if errors.As(err, &e) {
			peer = e.Peer
		}
		fmt.Printf("failed peer=%d dead=%v timeout=%v %v\n", peer, errors.Is(err, ErrPeerDead), errors.Is(err, ErrTimeout),
			err)
		return 1
	}
	ctx := context.Background()
	if what == "create" { // only make an id
		on := "lo"
		if os.Getenv("GOCCL_SOCKET_IFNAME") != "" {
			on = ""
		}
		id, err := NewUniqueID(WithInterface(on))
		if err != nil {
			return report(err)
		}
		fmt.Printf("id %x\n", id[:])
		select {}
	}
	if what == "exhaust" { // makes ids until that fails
		for {
			if _, err := NewUniqueID(WithInterface("lo"), quiet()); err != nil {
				fmt.Println("invalid", errors.Is(err, ErrInvalid))
				return report(err)
			}
		}
	}
	b, err := joinByEnv(ctx)
	if err != nil {
		return report(err)
	}
	defer func() { _ = b.Close() }()
	fmt.Println("joined", b.Hosts())
	switch what {
	case "barrier":
		return report(b.Barrier(ctx))
	case "wait": // for a message that is never sent
		_, err = b.Recv(ctx, (b.Rank()+1)%b.WorldSize(), 0)
		if errors.Is(err, ErrClosed) {
			err = nil
		}
		for err == nil {
			f, ok := <-b.Failures()
			if !ok {
				break
			}
			err = f.Err
		}
		return report(err)
	case "watch":
		f := <-b.Failures()
		return report(f.Err)
	case "host": // exchanges data with every rank, and prints all deaths
		for p := range b.WorldSize() {
			go func() {
				for err := error(nil); err == nil; {
					err = b.Send(ctx, p, 1, make([]byte, 10<<10))
					time.Sleep(time.Millisecond)
				}
			}()
			go func() {
				for err := error(nil); err == nil; {
					_, err = b.Recv(ctx, p, 1)
				}
			}()
		}
		for f := range b.Failures() {
			fmt.Println("lost", f.Rank, f.Err)
		}
		return 0
	case "clinging": // a child inherits its sockets and keeps them open
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return report(err)
		}
		cmd := exec.Command("sleep", "60")
		for _, e := range fds {
			fd, _ := strconv.Atoi(e.Name())
			if link, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(link, "socket:") {
				cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(fd), link))
			}
		}
		if err := cmd.Start(); err != nil {
			return report(err)
		}
		fmt.Println("clung")
		select {}
	case "traffic":
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
			if _, err := b.AllGather(ctx, make([]byte, 100<<10)); err != nil {
				return report(err)
			}
		}
		return report(nil)
	case "pause": // a hundred barriers over about three seconds
		for range 100 {
			if err := b.Barrier(ctx); err != nil {
				return report(err)
			}
			time.Sleep(30 * time.Millisecond)
		}
		return report(nil)
	}
	return report(fmt.Errorf("unknown order %q", what))
}

// joinByEnv uses GOCCL_TEST_ID if it is set, else the launcher's variables.
func joinByEnv(ctx context.Context) (Bootstrap, error) {
	if s := os.Getenv("GOCCL_TEST_ID"); s != "" {
		raw, _ := hex.DecodeString(s)
		id, err := ParseUniqueID(raw)
		if err != nil {
			return nil, err
		}
		rank, _ := strconv.Atoi(os.Getenv("RANK"))
		world, _ := strconv.Atoi(os.Getenv("WORLD_SIZE"))
		return JoinID(ctx, id, rank, world)
	}
	env, err := FromEnv()
	if err != nil {
		return nil, err
	}
	fmt.Println("started")
	return Join(ctx, env)
}

// accepted counts the connections accepted at a port of 127.0.0.1.
func accepted(t *testing.T, port int) int {
	t.Helper()
	connections, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	const established = "01"
	n := 0
	for line := range strings.Lines(string(connections)) {
		if f := strings.Fields(line); len(f) > 3 && f[1] == fmt.Sprintf("0100007F:%04X", port) && f[3] == established {
			n++
		}
	}
	return n
}

// TestKill9 kills one of eight processes in each phase. Every survivor must name it within a second, and no process may
// leave anything behind.
func TestKill9(t *testing.T) {
	const world = 8
	for _, c := range []struct {
		phase, what string
		victim      int
		start       int // how many ranks are started before the kill
	}{
		{"setup", "barrier", 2, world - 1},
		{"setup of the root", "barrier", 0, world - 1},
		{"wait", "wait", 3, world},
		{"wait, root", "wait", 0, world},
		{"traffic", "traffic", 1, world},
	} {
		t.Run(c.phase, func(t *testing.T) {
			testutil.Prompt(t, time.Second, func() time.Duration {
				port := testutil.Port(t)
				var ranks []*child
				watch := testutil.NewWatch(t)
				for r := range c.start {
					ranks = append(ranks, startRank(t, c.what, r, world, "", "MASTER_ADDR=127.0.0.1",
						fmt.Sprintf("MASTER_PORT=%d", port)))
				}
				for _, r := range ranks {
					if c.start == world {
						r.expect(t, "joined [0 0 0 0 0 0 0 0]", 30*time.Second)
					} else {
						r.expect(t, "started", 30*time.Second)
					}
				}
				for end := time.Now().Add(30 * time.Second); c.start < world &&
					accepted(t, port) < c.start; time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%d of %d ranks have found the root", accepted(t, port), c.start)
					}
				}
				time.Sleep(400 * time.Millisecond)
				var groups []int
				for _, r := range ranks {
					groups = append(groups, r.cmd.Process.Pid)
				}
				ranks[c.victim].kill()
				killed := time.Now()
				for _, r := range ranks {
					if r.rank != c.victim {
						r.expect(t, fmt.Sprintf("failed peer=%d dead=true", c.victim), 30*time.Second)
					}
				}
				// The time of the last survivor's report counts; reading the lines takes little time.
				took := time.Since(killed)
				for _, r := range ranks {
					r.ended(t, 30*time.Second)
				}
				watch.NothingLeft(t, groups...)
				return took
			})
		})
	}
}

// TestForeignRoot serves the id from a process that is not a rank.
func TestForeignRoot(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	var ranks []*child
	for r := range 3 {
		ranks = append(ranks, startRank(t, "barrier", r, 3, "", "GOCCL_TEST_ID="+hex.EncodeToString(id[:])))
	}
	for _, r := range ranks {
		r.expect(t, "done", 30*time.Second)
	}
	if r := liveRoot(id); r != nil {
		select {
		case <-r.done:
		case <-time.After(30 * time.Second):
			t.Error("the root does not end")
		}
	}
}

// TestStopIsNoDeath stops one process for longer than a heartbeat: no rank may report it as dead.
func TestStopIsNoDeath(t *testing.T) {
	t.Parallel()
	port := fmt.Sprintf("MASTER_PORT=%d", testutil.Port(t))
	var ranks []*child
	for r := range 3 {
		ranks = append(ranks, startRank(t, "pause", r, 3, "", "MASTER_ADDR=127.0.0.1", port))
	}
	for _, r := range ranks {
		r.expect(t, "joined", 30*time.Second)
	}
	time.Sleep(300 * time.Millisecond)
	ranks[1].signal(syscall.SIGSTOP)
	time.Sleep(1500 * time.Millisecond)
	ranks[1].signal(syscall.SIGCONT)
	for _, r := range ranks {
		r.expect(t, "done", time.Minute)
	}
}

// TestStalled stops one process permanently, with a short stall timeout.
func TestStalled(t *testing.T) {
	t.Parallel()
	port := fmt.Sprintf("MASTER_PORT=%d", testutil.Port(t))
	var ranks []*child
	for r := range 3 {
		ranks = append(ranks, startRank(t, "watch", r, 3, "", "MASTER_ADDR=127.0.0.1", port, "GOCCL_TIMEOUT=5"))
	}
	for _, r := range ranks {
		r.expect(t, "joined", 30*time.Second)
	}
	ranks[1].signal(syscall.SIGSTOP)
	for _, r := range []*child{ranks[0], ranks[2]} {
		if l := r.expect(t, "failed peer=1 dead=true", time.Minute); !strings.Contains(l, "nothing heard") {
			t.Error(l)
		}
	}
}
