package executor_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/testutil"
)

// TestMain also runs the ranks of TestHostProcesses, numbered by GOCCL_EXECUTOR_RANK.
func TestMain(m *testing.M) {
	if s := os.Getenv("GOCCL_EXECUTOR_RANK"); s != "" {
		if err := child(s); err != nil {
			fmt.Fprintln(os.Stderr, "rank", s, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(rank string) error {
	r, err := strconv.Atoi(rank)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(os.Getenv("GOCCL_EXECUTOR_RANKS"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	boot, err := bootstrap.JoinAddress(ctx, os.Getenv("GOCCL_EXECUTOR_ADDRESS"), r, n)
	if err != nil {
		return err
	}
	defer func() { _ = boot.Close() }()
	dev, err := host.Open(r)
	if err != nil {
		return err
	}
	defer func() { _ = dev.Close() }()
	e, err := executor.New(executor.Config{Job: collective.Job{Bootstrap: boot, Device: dev, OpTimeout: time.Minute}})
	if err != nil {
		return err
	}
	loaded := 0
	for _, name := range strings.Split(os.Getenv("GOCCL_EXECUTOR_PROGRAMS"), ",") {
		for _, inPlace := range []bool{false, true} {
			o := programs.Options{Ranks: n, InPlace: inPlace}
			prog, err := programs.Lookup(name)
			if err != nil {
				return err
			}
			if prog.Supports(o) != nil {
				continue
			}
			p, err := prog.Build(o)
			if err != nil {
				return err
			}
			x, err := e.Load(ctx, p)
			if err != nil {
				return err
			}
			loaded++
			for i, m := range messages(x, n, 4, 4*uint64(n), 4096*uint64(n)+4*uint64(n), 600_000) {
				for k := range 4 {
					c := planrun.Case{Message: m, Type: datatype.Float32, InPlace: k&1 != 0, Heap: k&2 != 0,
						Seed: uint64(i)}
					if k&1 == 0 {
						c.Times = 3
					}
					if _, err := planrun.Rank(ctx, x, r, dev, c); err != nil {
						return fmt.Errorf("%s, %v, heap %v: %w", p.Name, c, c.Heap, err)
					}
				}
			}
			if err := unmapsFreed(ctx, e, x, loaded, n, dev); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
		}
	}
	if err := boot.Barrier(ctx); err != nil {
		return err
	}
	return e.Close()
}

// unmapsFreed runs a plan on buffers that are freed after each run: the peers unmap them.
func unmapsFreed(ctx context.Context, e *executor.Executor, x *executor.ExecutionPlan, loaded, n int,
	dev *host.Device) error {
	sizes := messages(x, n, 4, 600_000, 4096*uint64(n)+4*uint64(n))
	for range 4 * min(1, len(sizes)) {
		c := planrun.Case{Message: sizes[0], Type: datatype.Float32}
		if _, err := planrun.Rank(ctx, x, e.Rank(), dev, c); err != nil {
			return err
		}
	}
	// Each plan keeps two staging buffers. Of each rank two freed buffers may still be mapped, or more if it is late.
	most := 2*loaded + 2*3
	if entries, mappings := e.Live(); len(sizes) > 0 && (entries > most || mappings > most*(n-1)) {
		return fmt.Errorf("%d buffers of this rank are shared, %d are mapped; all were freed", entries, mappings)
	}
	return nil
}

// TestHostProcesses runs programs of every kind of access with a process for each rank, on memory that peers can map
// and on memory that they cannot map. With GOCCL_FULL=1 it runs every program, also with four ranks.
func TestHostProcesses(t *testing.T) {
	ranks, names := []int{2}, reducing
	if setting.Lenient().Full != "" {
		ranks, names = []int{2, 4}, programs.Names()
	}
	for _, n := range ranks {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			address := fmt.Sprintf("127.0.0.1:%d", testutil.Port(t))
			var ranks []*exec.Cmd
			for r := range n {
				c := exec.Command(os.Args[0])
				c.Env = append(os.Environ(), "GOCCL_EXECUTOR_RANK="+strconv.Itoa(r),
					"GOCCL_EXECUTOR_RANKS="+strconv.Itoa(n), "GOCCL_EXECUTOR_ADDRESS="+address,
					"GOCCL_EXECUTOR_PROGRAMS="+strings.Join(names, ","))
				c.Stderr = os.Stderr
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				ranks = append(ranks, c)
			}
			for r, c := range ranks {
				if err := c.Wait(); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			}
		})
	}
}
