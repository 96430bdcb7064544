// Package hosts_test tests communicators with ranks on several hosts.
package hosts_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// layouts are the hosts of the ranks: even, uneven, interleaved, with and without peers on the own host.
var layouts = [][]int{{0, 1}, {0, 0, 1, 1}, {0, 0, 0, 1}, {0, 1, 0, 1}, {0, 1, 2}, {0, 0, 1, 1, 2, 2, 2},
	{0, 1, 1, 1, 2, 3, 3}}

func run(t *testing.T, comms []*goccl.Comm, c conformance.Case) {
	t.Helper()
	c.Seed = rand.Uint64()
	if err := conformance.Run(comms, c); err != nil {
		t.Fatalf("%v seed %d: %v", c, c.Seed, err)
	}
}

// TestEverythingAcrossHosts runs every collective with every type and operator, and over sizes. Under the race detector
// layouts, types and operators are few: types and operators change arithmetic, and not who waits for whom.
func TestEverythingAcrossHosts(t *testing.T) {
	types, large := datatype.NumTypes, int64(1<<20+3)
	if testing.Short() {
		types, large = 0, 1<<18+3
	}
	for i, hosts := range layouts {
		raced := i == 1 || i == 3 || i == 5
		if testing.Short() && !raced || i > 1 && raced && !testing.Short() && setting.Lenient().Full == "" {
			continue // types and operators run on two layouts
		}
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			comms := commtest.NewOn(t, hosts, commtest.Host, nil)
			n := len(hosts)
			sizes := []int64{0, 1, 127, 4096, 65537}
			if testing.Short() && n > 4 {
				sizes = sizes[:4]
			}
			for _, c := range conformance.Trimmed(n, uint64(i), sizes) {
				run(t, comms, c)
			}
			if i != 1 && i != 2 {
				return
			}
			for _, coll := range conformance.Collectives {
				for ty := range types {
					for op := range datatype.NumOps {
						if op > 0 && !conformance.Reduces(coll) {
							break
						}
						run(t, comms, conformance.Case{Collective: coll, Type: ty, Op: op, Count: 5003, Root: rand.IntN(n),
							InPlace: op%2 == 0})
					}
				}
				run(t, comms, conformance.Case{Collective: coll, Type: datatype.Bfloat16, Count: large, Root: rand.IntN(n)})
			}
		})
	}
}

// TestAveragesAcrossHosts averages elements near the limits of types: hosts have equal and unequal numbers of ranks.
func TestAveragesAcrossHosts(t *testing.T) {
	layouts, sizes := layouts, []int64{1, 127, 65537, 300_001}
	if testing.Short() { // the race detector watches every element, and all go one way
		layouts, sizes = layouts[1:3], []int64{1, 127, 4099}
	}
	for i, hosts := range layouts {
		comms := commtest.NewOn(t, hosts, commtest.Host, nil)
		each := sizes
		if i > 2 && setting.Lenient().Full == "" {
			each = sizes[:3] // long messages have an even and an uneven layout
		}
		for _, c := range conformance.Averages(len(hosts), each...) {
			run(t, comms, c)
		}
	}
}
