package hosts_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/netfake"
)

// TestFakeNetwork runs collectives over a network that reorders, repeats and delays messages, and in some schedules
// loses a connection. Results are right, or ranks get an error that names a rank; no rank hangs.
func TestFakeNetwork(t *testing.T) {
	n, sizes := 40, 18
	if setting.Lenient().Full != "" {
		n, sizes = 20000, 21 // the largest are more than a ring of slots holds
	}
	netfake.Schedules(t, n, func(seed uint64, o *netfake.Options) {
		o.Delay, o.Repeat, o.Slow = 1+int(seed%200), float64(seed%3)/4, float64(seed%4)/4
		if seed%25 == 0 {
			o.Break = 1 + int(seed*7%60)
		}
	}, func(t testing.TB, f *netfake.Fabric) {
		var seed uint64
		_, _ = fmt.Sscanf(t.Name(), "TestFakeNetwork/seed_%d", &seed)
		rng := rand.New(rand.NewPCG(seed, 2))
		layout := []int{0, 1}
		for range rng.IntN(4) {
			layout = append(layout, rng.IntN(min(3, layout[len(layout)-1]+2)))
		}
		layout = renumber(layout)
		comms := commtest.NewOn(t, layout, commtest.Host, func(r int, cfg *goccl.Config) {
			cfg.Net = f.Net(fmt.Sprint("host ", layout[r]))
		})
		for range 12 { // more pieces than a ring has slots
			c := conformance.Case{Collective: conformance.Collectives[rng.IntN(len(conformance.Collectives))],
				Type: datatype.Float32, Op: datatype.Op(rng.IntN(2)), Count: int64(rng.IntN(1 << rng.IntN(sizes))),
				Root: rng.IntN(len(layout)), InPlace: rng.IntN(2) == 0, Seed: rng.Uint64()}
			if err := conformance.Run(comms, c); err != nil {
				if !lost(f, err) {
					t.Fatalf("%v on hosts %v: %v", c, layout, err)
				}
				return
			}
		}
	})
}

// TestABrokenLinkIsToldToAll breaks the link between two ranks that live: the third rank, which has links to both, gets
// an error too, that names one of them, although it has no deadline.
func TestABrokenLinkIsToldToAll(t *testing.T) {
	f := netfake.New(netfake.Options{Seed: 1, Break: 50})
	defer f.Close()
	comms := commtest.NewOn(t, []int{0, 1, 2}, commtest.Host, func(r int, cfg *goccl.Config) {
		cfg.Net, cfg.OpTimeout = f.Net(fmt.Sprint("host ", r)), -1
	})
	var peers [3]int
	if err := commtest.Each(len(comms), func(r int) error {
		u, err := commtest.NewSums(comms[r])
		if err != nil {
			return err
		}
		for err == nil {
			err = u.Once(1)
		}
		var ge *goccl.Error
		if !errors.As(err, &ge) || ge.Peer < 0 || ge.Peer == r {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		peers[r] = ge.Peer
		return u.Close()
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("ranks blame %v", peers)
}

// lost reports whether err is what ranks may get after a lost connection.
func lost(f *netfake.Fabric, err error) bool {
	var ge *goccl.Error
	return f.Broken() && errors.As(err, &ge) && ge.Peer >= 0
}

// renumber numbers hosts by first appearance.
func renumber(layout []int) []int {
	number := map[int]int{}
	for i, h := range layout {
		if _, ok := number[h]; !ok {
			number[h] = len(number)
		}
		layout[i] = number[h]
	}
	return layout
}
