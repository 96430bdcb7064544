package executor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/dsl/programs"
	"github.com/goccl/goccl/engine/executor"
	"github.com/goccl/goccl/engine/executor/planrun"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/netfake"
)

// newJobOn makes a rank for each element of hosts, the number of its host. net is the network that a host has.
func newJobOn(t testing.TB, hosts []int, net func(host int) transport.Net) *job {
	t.Helper()
	return fill(t, &job{boots: bootstrap.NewLocalHosts(hosts).Ranks}, openHost, func(r int, c *executor.Config) {
		c.OpTimeout, c.Net = 10*time.Second, net(hosts[r])
	})
}

// overHosts builds the programs for hosts of per ranks.
func overHosts(t testing.TB, hosts, per int, f func(name string, p *plan.Plan)) {
	for _, prog := range programs.All() {
		for _, inPlace := range []bool{false, true} {
			o := programs.Options{Ranks: hosts * per, Hosts: hosts, InPlace: inPlace}
			if prog.Supports(o) != nil {
				continue
			}
			p, err := prog.Build(o)
			if err != nil {
				t.Fatal(err)
			}
			f(fmt.Sprintf("%s/%dx%d/%v", prog.Name, hosts, per, inPlace), p)
		}
	}
}

// layoutOf is the host of each rank.
func layoutOf(hosts, per int) (list []int) {
	for r := range hosts * per {
		list = append(list, r/per)
	}
	return list
}

// TestProgramsOverHosts runs every shipped program for several hosts over a network that reorders and repeats.
func TestProgramsOverHosts(t *testing.T) {
	for _, shape := range [][2]int{{2, 1}, {2, 2}, {3, 2}} {
		overHosts(t, shape[0], shape[1], func(name string, p *plan.Plan) {
			t.Run(name, func(t *testing.T) {
				f := netfake.New(netfake.Options{Seed: 3, Repeat: 0.2})
				t.Cleanup(f.Close)
				n := shape[0] * shape[1]
				j := newJobOn(t, layoutOf(shape[0], shape[1]), func(h int) transport.Net { return f.Net(fmt.Sprint(h)) })
				xs := j.load(t, p)
				for _, m := range messages(xs[0], n, 4, 4*uint64(n), 4096*uint64(n), 1<<20) {
					for _, inPlace := range []bool{false, true} {
						c := planrun.Case{Message: m, Type: datatype.Float32, InPlace: inPlace, Seed: m, Fresh: 3}
						if xs[0].Takes(m, c.Type, c.Op) != nil {
							continue
						}
						if err := j.run(bounded(t), xs, c); err != nil {
							t.Fatalf("%v: %v", c, err)
						}
					}
				}
			})
		})
	}
}
