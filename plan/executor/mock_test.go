package executor_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/test/mockcuda"
	"github.com/goccl/goccl/test/netfake"
	"github.com/goccl/goccl/transport"
)

// onMock runs the test again in a process with a driver that runs no kernels, and reports whether this is that process.
func onMock(t *testing.T) bool {
	t.Helper()
	const child = "GOCCL_EXECUTOR_TEST_MOCK"
	if os.Getenv(child) != "" {
		return true
	}
	if cuda.Available() == nil {
		t.Skip("there is a GPU: other tests do it for real")
	}
	lib := filepath.Join(t.TempDir(), "libmockcuda.so")
	if err := mockcuda.Build(lib); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), child+"=1", mockcuda.Env+"="+lib, "MOCKCUDA_DEVICES=4")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// TestMockCounts: a launch carries the address of its table of counts, not the counts, so that each replay of a graph
// reads the current counts. A later launch without a table moves whole blocks.
func TestMockCounts(t *testing.T) {
	if !onMock(t) {
		return
	}
	trace, err := mockcuda.NewTrace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const n = 2
	j := newJob(t, n, func(r int) (device.Device, error) { return cuda.Open(r) })
	xs := j.load(t, executor.CountedPlans(t, n)["direct"])
	for l, given := range []bool{true, false} {
		var at [n]device.Ptr
		trace.Start()
		if err := j.each(func(r int) error {
			c, err := newCountedRank(xs[r], j.devs[r], r, n, 512)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = c.close() })
			s, err := c.dev.NewStream()
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = s.Close() })
			a := c.args(s, l)
			if !given {
				a.Counts = 0
			}
			at[r] = a.Counts
			return xs[r].Execute(bounded(t), a)
		}); err != nil {
			t.Fatal(err)
		}
		calls, err := trace.Stop()
		if err != nil {
			t.Fatal(err)
		}
		var tables []device.Ptr
		for _, c := range calls {
			if c.Kind == mockcuda.Launch {
				tables = append(tables, executor.CountsOf(c.Params))
			}
		}
		slices.Sort(at[:])
		slices.Sort(tables)
		if !slices.Equal(tables, at[:]) {
			t.Errorf("launch %d: the kernels get tables at %#x, not %#x", l, tables, at)
		}
	}
}

// TestMockLaunches launches every shipped plan: for all caller's buffers and operators, there is memory for the launch.
// Tests with GPUs check results.
func TestMockLaunches(t *testing.T) {
	if !onMock(t) {
		return
	}
	open := func(r int) (device.Device, error) { return cuda.Open(r) }
	ops := []datatype.Op{datatype.Sum, datatype.Avg, datatype.PreMulSum}
	if testing.Short() {
		ops = ops[2:] // with a factor, as no other
	}
	launches := func(t *testing.T, j *job, p *plan.Plan, n int) {
		xs := j.load(t, p)
		for _, m := range messages(xs[0], n, 4, 4*uint64(n), 4096*uint64(n)) {
			for _, op := range ops {
				for _, inPlace := range []bool{false, true} {
					c := planrun.Case{Message: m, Type: datatype.Float32, Op: op, InPlace: inPlace}
					var refused *collective.Error
					if err := j.run(bounded(t), xs, c); errors.As(err, &refused) {
						t.Errorf("%v: %v", c, refused)
					}
				}
			}
		}
	}
	shipped(t, 3, func(name string, p *plan.Plan) {
		t.Run(name, func(t *testing.T) { launches(t, newJob(t, 3, open), p, 3) })
	})
	for _, shape := range [][2]int{{2, 1}, {2, 2}} {
		executor.OverHosts(t, shape[0], shape[1], func(name string, p *plan.Plan) {
			t.Run(name, func(t *testing.T) {
				f := netfake.New(netfake.Options{Seed: 3})
				t.Cleanup(f.Close)
				j := newJobOn(t, layoutOf(shape[0], shape[1]), open,
					func(h int) transport.Net { return f.Net(fmt.Sprint(h)) })
				launches(t, j, p, shape[0]*shape[1])
			})
		})
	}
}

// TestErrAsksKernels: once a kernel has given up, Err says so at once, and not when someone looks for it the next time.
// A caller whose stream has ended would take old data for a result.
func TestErrAsksKernels(t *testing.T) {
	if !onMock(t) {
		return
	}
	j := newJob(t, 2, func(r int) (device.Device, error) { return cuda.Open(r) })
	xs := j.load(t, executor.CountedPlans(t, 2)["direct"])
	if err := j.execs[0].Err(); err != nil {
		t.Fatal(err)
	}
	xs[0].GiveUp()
	if err := j.execs[0].Err(); !errors.Is(err, collective.ErrTimeout) {
		t.Errorf("%v, want %v", err, collective.ErrTimeout)
	}
}
