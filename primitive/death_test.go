package primitive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/mockcuda"
	"github.com/goccl/goccl/test/testutil"
)

// Ranks in separate processes that die by SIGKILL.

const deathVariable = "GOCCL_TEST_DEATH" // "phase transport" in a process that is a rank

func TestMain(m *testing.M) {
	if what := os.Getenv(deathVariable); what != "" {
		fmt.Println(survive(what))
		os.Exit(0)
	}
	if what := os.Getenv(attackVariable); what != "" {
		if err := beAttack(what); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(hostsVariable) != "" {
		if err := acrossHosts(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var cleanup func()
	var err error
	if mock, cleanup, err = mockcuda.Setup(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	code := m.Run()
	cleanup()
	os.Exit(code)
}

const victim = 1

func dieNow() {
	fmt.Printf("died %d\n", time.Now().UnixNano())
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// survive runs one rank. The victim kills itself at the given phase; the others return one line: when they detected it,
// and the rank that the error names.
func survive(what string) string {
	phase, tr, _ := strings.Cut(what, " ")
	var now int64
	err := func() (err error) {
		env, err := bootstrap.FromEnv()
		if err != nil {
			return err
		}
		bg := context.Background()
		bs, err := bootstrap.Join(bg, env)
		if err != nil {
			return err
		}
		// A survivor closes properly; otherwise its exit would look like a second death to ranks that have not detected
		// the first yet.
		defer func() { _ = bs.Close() }()
		ctx := NewContext(WithSpinLimit(20 * time.Second))
		defer func() { _ = ctx.Close() }()
		r := &rank{comm: NewCommunicator(bs, ctx)}
		defer func() { _ = r.comm.Close() }()
		defer func() { now = time.Now().UnixNano() }()
		if r.dev, err = host.Open(env.Rank); err != nil {
			return err
		}
		if phase == "setup" && env.Rank == victim {
			dieNow()
		}
		transport, err := ParseTransport(tr)
		if err != nil {
			return err
		}
		handles, _, err := mesh(r, transport, 1<<16)
		if err != nil {
			return err
		}
		if err := bs.Barrier(bg); err != nil {
			return err
		}
		if phase == "wait" {
			if env.Rank == victim {
				time.Sleep(50 * time.Millisecond)
				dieNow()
			}
			if s := handles[victim].Wait(); s != StatusOK {
				return ctx.Err()
			}
			return errors.New("a signal came from the dead")
		}
		// Traffic in all directions, for ever.
		go func() {
			if env.Rank == victim {
				time.Sleep(50 * time.Millisecond)
				dieNow()
			}
		}()
		for {
			for p := range handles {
				if s := handles[p].PutWithSignalAndFlush(0, 0, 1<<16); s != StatusOK {
					return ctx.Err()
				}
			}
			for p := range handles {
				if s := handles[p].Wait(); s != StatusOK {
					return ctx.Err()
				}
			}
		}
	}()
	var e *Error
	peer := NoRank
	if errors.As(err, &e) && errors.Is(err, ErrPeerDead) {
		peer = e.Peer
	}
	return fmt.Sprintf("noticed %d %d %v", now, peer, err)
}

// TestKilledProcessIsNamedWithinASecond kills one of eight ranks in each phase. All others must name it, and no process
// may leave anything behind.
func TestKilledProcessIsNamedWithinASecond(t *testing.T) {
	const n = 8
	phases := []string{"setup ipc", "wait ipc", "traffic ipc", "wait ethernet", "traffic ethernet"}
	if testing.Short() {
		phases = []string{"setup ipc", "wait ethernet", "traffic ipc"}
	}
	for _, what := range phases {
		t.Run(what, func(t *testing.T) {
			testutil.Prompt(t, time.Second, func() (worst time.Duration) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				port := testutil.Port(t)
				var wg sync.WaitGroup
				var outs, logs [n]bytes.Buffer
				var groups [n]int
				watch := testutil.NewWatch(t)
				for i := range n {
					cmd := exec.CommandContext(ctx, os.Args[0])
					cmd.Env = append(os.Environ(), deathVariable+"="+what, fmt.Sprintf("RANK=%d", i), fmt.Sprintf("WORLD_SIZE=%d", n),
						fmt.Sprintf("LOCAL_RANK=%d", i),
						fmt.Sprintf("LOCAL_WORLD_SIZE=%d", n), "MASTER_ADDR=127.0.0.1", fmt.Sprintf("MASTER_PORT=%d", port),
						"GOCCL_SECRET=death", "GOCCL_SOCKET_IFNAME=lo")
					cmd.Stdout, cmd.Stderr = &outs[i], &logs[i]
					cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					groups[i] = cmd.Process.Pid
					wg.Go(func() { _ = cmd.Wait() })
				}
				wg.Wait()
				var died int64
				if _, err := fmt.Sscanf(outs[victim].String(), "died %d", &died); err != nil {
					t.Fatalf("the victim says %q", outs[victim].String())
				}
				for i := range n {
					if i == victim {
						continue
					}
					var noticed int64
					var peer int
					if _, err := fmt.Sscanf(outs[i].String(), "noticed %d %d", &noticed, &peer); err != nil || peer != victim {
						t.Errorf("rank %d says %q, want an error that names rank %d; its log:\n%s", i, outs[i].String(), victim,
							logs[i].String())
					}
					worst = max(worst, time.Duration(noticed-died))
				}
				watch.NothingLeft(t, groups[:]...)
				return worst
			})
		})
	}
}
