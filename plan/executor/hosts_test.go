package executor_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/executor/planrun"
	"github.com/goccl/goccl/test/netfake"
	"github.com/goccl/goccl/transport"
)

// newJobOn makes a rank for each element of hosts, the number of its host. net is the network that a host has.
func newJobOn(t testing.TB, hosts []int, open func(int) (device.Device, error), net func(host int) transport.Net) *job {
	t.Helper()
	return fill(t, &job{boots: bootstrap.NewLocalHosts(hosts).Ranks}, open, func(r int, c *executor.Config) {
		c.OpTimeout, c.Net = time.Minute, net(hosts[r])
	})
}

// layoutOf is the host of each rank.
func layoutOf(hosts, per int) (list []int) {
	for r := range hosts * per {
		list = append(list, r/per)
	}
	return list
}

// onHosts runs a plan of hosts of per ranks over a network that reorders and repeats.
func onHosts(t *testing.T, p *plan.Plan, hosts, per int) { onHostsWith(t, openHost, p, hosts, per) }

// onHostsWith is onHosts for other devices than the host's.
func onHostsWith(t *testing.T, open func(int) (device.Device, error), p *plan.Plan, hosts, per int) {
	f := netfake.New(netfake.Options{Seed: 3, Repeat: 0.2})
	t.Cleanup(f.Close)
	n := hosts * per
	j := newJobOn(t, layoutOf(hosts, per), open, func(h int) transport.Net { return f.Net(fmt.Sprint(h)) })
	xs := j.load(t, p)
	sizes := []uint64{4 * uint64(n), 4096 * uint64(n), 48 * uint64(n), 1 << 20}
	switch {
	case testing.Short():
		sizes = sizes[:2]
	case setting.Lenient().Full == "":
		sizes = sizes[2:]
	}
	ran := false
	for _, m := range messages(xs[0], n, 4, sizes...) {
		for _, inPlace := range []bool{false, true} {
			c := planrun.Case{Message: m, Type: datatype.Float32, InPlace: inPlace, Seed: m, Fresh: 3}
			c.Op = planrun.Operator(p, datatype.Sum)
			if xs[0].Takes(m, c.Type, c.Op) != nil {
				continue
			}
			ran = true
			if err := j.run(bounded(t), xs, c); err != nil {
				for r, e := range j.execs {
					t.Logf("rank %d: %v", r, e.Err())
				}
				t.Fatalf("%v: %v", c, err)
			}
		}
	}
	if !ran {
		t.Error("the plan takes no message of this test")
	}
}

// TestProgramsOverHosts runs every shipped program for several hosts. The race detector sees peers on the same host and
// on another.
func TestProgramsOverHosts(t *testing.T) {
	shapes := [][2]int{{2, 1}, {3, 2}}
	if testing.Short() {
		shapes = [][2]int{{2, 2}}
	}
	for _, shape := range shapes {
		executor.OverHosts(t, shape[0], shape[1], func(name string, p *plan.Plan) {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // the network's delays take most of the time
				onHosts(t, p, shape[0], shape[1])
			})
		})
	}
}

// TestPacketsOverHosts runs an all-reduce whose ranks push packets into port channels, which no shipped program does.
func TestPacketsOverHosts(t *testing.T) {
	const n = 3
	for _, raw := range []bool{false, true} {
		t.Run(fmt.Sprint("raw ", raw), func(t *testing.T) { onHosts(t, executor.PortPackets(t, n, raw), n, 1) })
	}
}

// TestForeignPortsOverHosts runs the plans in files that have port channels only, one rank per host.
func TestForeignPortsOverHosts(t *testing.T) {
	for _, file := range []string{"testdata/exchange_port_flush.json", "../dsl/testdata/exchange_port.json"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(p.Name, func(t *testing.T) { onHosts(t, p, len(p.GPUs), 1) })
	}
}
