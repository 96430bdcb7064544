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

// TestEverythingAcrossHosts runs every collective over sizes, with types and operators that are chosen at random: these
// change arithmetic, and not who waits for whom. With GOCCL_FULL=1 it runs every type and operator, and more layouts.
func TestEverythingAcrossHosts(t *testing.T) {
	full, large := setting.Lenient().Full != "", int64(1<<18+3)
	if full {
		large = 1<<20 + 3
	}
	for i, hosts := range layouts {
		if !full && i != 1 && i != 3 && i != 5 {
			continue
		}
		t.Run(fmt.Sprint(hosts), func(t *testing.T) {
			comms := commtest.NewOn(t, hosts, commtest.Host, nil)
			n := len(hosts)
			sizes := []int64{0, 1, 127, 4096, 65537}
			if !full && n > 4 {
				sizes = sizes[:4]
			}
			for _, c := range conformance.Trimmed(n, uint64(i), sizes) {
				run(t, comms, c)
			}
			if i != 1 && i != 2 {
				return
			}
			for _, coll := range conformance.Collectives {
				for ty := range datatype.NumTypes {
					for op := range datatype.NumOps {
						switch {
						case op > 0 && !conformance.Reduces(coll):
							continue
						case !full && rand.IntN(6) > 0:
							continue
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
	few, sizes := layouts[1:3], []int64{1, 127, 4099} // an even layout and an uneven one
	if setting.Lenient().Full != "" {
		few, sizes = layouts, append(sizes, 65537, 300_001)
	}
	for _, hosts := range few {
		comms := commtest.NewOn(t, hosts, commtest.Host, nil)
		for _, c := range conformance.Averages(len(hosts), sizes...) {
			run(t, comms, c)
		}
	}
}
