package executor_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/executor"
	"github.com/goccl/goccl/engine/executor/planrun"
	"github.com/goccl/goccl/internal/driver/mockcuda"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/netfake"
)

// TestMockLaunches launches every shipped plan over a driver that runs no kernels: for all caller's buffers and
// operators, there is memory for the launch. Tests with GPUs check results.
func TestMockLaunches(t *testing.T) {
	const child = "GOCCL_EXECUTOR_TEST_MOCK"
	if os.Getenv(child) == "" {
		if cuda.Available() == nil {
			t.Skip("there is a GPU: TestGPUPrograms does it for real")
		}
		lib := filepath.Join(t.TempDir(), "libmockcuda.so")
		if err := mockcuda.Build(lib); err != nil {
			t.Skip(err)
		}
		cmd := exec.Command(os.Args[0], "-test.run", "^TestMockLaunches$", "-test.timeout", "5m")
		cmd.Env = append(os.Environ(), child+"=1", mockcuda.Env+"="+lib, "MOCKCUDA_DEVICES=4")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	open := func(r int) (device.Device, error) { return cuda.Open(r) }
	launches := func(t *testing.T, j *job, p *plan.Plan, n int) {
		xs := j.load(t, p)
		for _, m := range messages(xs[0], n, 4, 4*uint64(n), 4096*uint64(n)) {
			for _, op := range []datatype.Op{datatype.Sum, datatype.Avg, datatype.PreMulSum} {
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
