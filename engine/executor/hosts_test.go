package executor_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/dsl"
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

// onHosts runs a plan of hosts of per ranks over a network that reorders and repeats.
func onHosts(t *testing.T, p *plan.Plan, hosts, per int) {
	f := netfake.New(netfake.Options{Seed: 3, Repeat: 0.2})
	t.Cleanup(f.Close)
	n := hosts * per
	j := newJobOn(t, layoutOf(hosts, per), func(h int) transport.Net { return f.Net(fmt.Sprint(h)) })
	xs := j.load(t, p)
	ran := false
	for _, m := range messages(xs[0], n, 4, 4*uint64(n), 48*uint64(n), 4096*uint64(n), 1<<20) {
		for _, inPlace := range []bool{false, true} {
			c := planrun.Case{Message: m, Type: datatype.Float32, InPlace: inPlace, Seed: m, Fresh: 3}
			c.Op = planrun.Operator(p, datatype.Sum)
			if xs[0].Takes(m, c.Type, c.Op) != nil {
				continue
			}
			ran = true
			if err := j.run(bounded(t), xs, c); err != nil {
				t.Fatalf("%v: %v", c, err)
			}
		}
	}
	if !ran {
		t.Error("the plan takes no message of this test")
	}
}

// TestProgramsOverHosts runs every shipped program for several hosts.
func TestProgramsOverHosts(t *testing.T) {
	for _, shape := range [][2]int{{2, 1}, {2, 2}, {3, 2}} {
		overHosts(t, shape[0], shape[1], func(name string, p *plan.Plan) {
			t.Run(name, func(t *testing.T) { onHosts(t, p, shape[0], shape[1]) })
		})
	}
}

// TestPacketsOverHosts runs an all-reduce whose ranks push packets into port channels, which no shipped program does.
func TestPacketsOverHosts(t *testing.T) {
	const n = 3
	for _, raw := range []bool{false, true} {
		c := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "allreduce_port_ll", RanksPerNode: 1, Protocol: plan.LL,
			Collective: dsl.AllReduce(n, 1, false), UseDoubleScratchBuffer: true, MaxMessageSize: 1 << 20})
		var scratch []*dsl.Buffer
		for r := range n {
			scratch = append(scratch, c.Rank(r).Scratch(n*n))
		}
		for r := range n {
			rank, tb := c.Rank(r), dsl.TB(0)
			from := func(at, of int) dsl.Chunk { return scratch[at].Slice(of*n, of*n+n) }
			rank.CopyPackets(from(r, r), rank.Input().Slice(0, n), tb)
			for k := 1; k < n; k++ {
				q := (r + k) % n
				if port := c.PortChannel(q, r); raw {
					port.PutPackets(from(q, r), from(r, r), tb)
				} else {
					port.ReadPutPackets(from(q, r), from(r, r), tb)
				}
			}
			out := rank.Output().Slice(0, n)
			rank.UnpackPackets(out, from(r, 0), tb)
			rank.Reduce(out, []dsl.Chunk{from(r, 1), from(r, 2)}, dsl.Packet(), tb)
		}
		p, err := c.Compile()
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint("raw ", raw), func(t *testing.T) { onHosts(t, p, n, 1) })
	}
}

// TestForeignPortsOverHosts runs the plans in files that have port channels only, each rank on a host of its own.
func TestForeignPortsOverHosts(t *testing.T) {
	for _, file := range []string{"testdata/exchange_port_flush.json", "../../dsl/testdata/exchange_port.json"} {
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
