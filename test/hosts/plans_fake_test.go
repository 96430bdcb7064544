package hosts_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/netfake"
)

// TestPlansOnFakeNetwork runs plans over networks that reorder, repeat and delay, and that lose a connection in some
// schedules. Results are right, or ranks get an error that names a rank; no rank hangs.
func TestPlansOnFakeNetwork(t *testing.T) {
	n := 60
	if setting.Lenient().Full != "" {
		n = 10000
	}
	names := []string{"allreduce_hierarchical", "allreduce_hierarchical_pipelined", "alltoall_2d", "allreduce_ring",
		"allgather_hierarchical", "reducescatter_hierarchical", "alltoall_direct", "broadcast_scatter"}
	netfake.Schedules(t, n, func(seed uint64, o *netfake.Options) {
		o.Delay, o.Repeat, o.Slow = 1+int(seed%200), float64(seed%3)/4, float64(seed%4)/4
		if seed%10 == 0 {
			o.Break = 1 + int(seed*7%200)
		}
	}, func(t testing.TB, f *netfake.Fabric) {
		var seed uint64
		_, _ = fmt.Sscanf(t.Name(), "TestPlansOnFakeNetwork/seed_%d", &seed)
		rng := rand.New(rand.NewPCG(seed, 3))
		hosts, per := 2+rng.IntN(2), 1+rng.IntN(2)
		prog, err := programs.Lookup(names[rng.IntN(len(names))])
		o := programs.Options{Ranks: hosts * per, Hosts: hosts, Instances: 1 + rng.IntN(2)}
		if err != nil || prog.Supports(o) != nil {
			return
		}
		p, err := prog.Build(o)
		if err != nil {
			t.Fatal(err)
		}
		layout := layoutOf(hosts, per)
		comms := commtest.NewOn(t, layout, commtest.Host, func(r int, cfg *goccl.Config) {
			cfg.Net = f.Net(fmt.Sprint("host ", layout[r]))
		})
		err = commtest.Each(len(comms), func(r int) error {
			_, err := planned(comms[r], p)
			return err
		})
		for i := 0; i < 3 && err == nil; i++ {
			err = conformance.Run(comms, conformance.Case{Collective: collectives[p.Collective],
				Type: datatype.Float32, Root: p.Root, Seed: rng.Uint64(),
				Count: int64(len(layout)) * int64(1+rng.IntN(1<<rng.IntN(14)))})
		}
		if err != nil && !lost(f, err) {
			t.Fatalf("%s on hosts %v: %v", p.Name, layout, err)
		}
	})
}
