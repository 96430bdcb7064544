package contract_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/executor"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/testutil"
)

// TestPromises finds out which promise each algorithm keeps, on the host device: docs/exact.md shows it.
func TestPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector watches every element, and sees these operations in other tests")
	}
	var found []testutil.Promise
	for _, name := range []string{"one_shot", "two_shot", "direct"} {
		o := observe(t, [][]int{{0, 0, 0}}, func(_ int, cfg *goccl.Config) {
			cfg.Algorithms = "all_reduce:" + name + ",reduce:" + name
		}, nil, reductions)
		found = append(found, testutil.Promise{Where: "host device, one host", Algorithm: name, Level: o.level(false)})
	}
	layouts := [][]int{{0, 0, 1, 1}, {0, 1, 0, 1}, {0, 1, 1, 1}}
	for _, name := range []string{"leaders", "rails"} {
		o := observe(t, layouts, func(_ int, cfg *goccl.Config) { cfg.Algorithms = "all_reduce:" + name }, nil, reductions)
		found = append(found, testutil.Promise{Where: "several hosts, to `batch`", Algorithm: name, Level: o.level(true)})
	}
	o := observe(t, layouts, func(_ int, cfg *goccl.Config) { cfg.Exact = collective.ExactPlacement }, nil, reductions)
	found = append(found, testutil.Promise{Where: "several hosts, from `placement`", Algorithm: "in rank order",
		Level: o.level(true)})
	found = append(found, fusedPromises(t)...)
	found = append(found, planPromises(t)...)
	testutil.ComparePromises(t, found, os.Getenv("GOCCL_UPDATE_GOLDEN") != "")
}

// observed is what was seen of an algorithm's bits.
type observed struct {
	repeats, batch, placement, reference bool
	cases                                int
}

// level is the furthest promise. The placement shows only where ranks were on several hosts.
func (o *observed) level(hosts bool) string {
	switch {
	case !o.repeats || o.cases == 0:
		return "none"
	case !o.batch:
		return collective.ExactRun.String()
	case hosts && !o.placement || !hosts && !o.reference:
		return collective.ExactBatch.String()
	case !o.reference:
		return collective.ExactPlacement.String()
	}
	return collective.ExactReference.String()
}

// reductions are the collectives, types and operators that observe draws from.
var reductions = []conformance.Case{{Collective: collective.AllReduce}, {Collective: collective.Reduce},
	{Collective: collective.ReduceScatter}}

// observe runs messages of random sizes, places, alignments and roots, in place and not, with every type and operator,
// and the ranks placed in several ways, and compares the bits of elements that have the same terms.
func observe(t *testing.T, layouts [][]int, set func(r int, cfg *goccl.Config), prepare func(*goccl.Comm) error,
	what []conformance.Case) *observed {
	t.Helper()
	o := &observed{repeats: true, batch: true, placement: true, reference: true}
	types, ops, draws := []datatype.Type{datatype.Float32, datatype.Bfloat16}, []datatype.Op{datatype.Sum, datatype.Avg,
		datatype.PreMulSum, datatype.Prod}, 3
	if setting.Lenient().Full != "" {
		types, draws = exactTypes, 12
	} else if prepare != nil { // many plans
		ops = ops[:2]
	}
	const seed = 35
	placed := map[string]elements{} // by case
	for _, hosts := range layouts {
		comms := commtest.NewOn(t, hosts, commtest.Host, set)
		if prepare != nil {
			if err := everyRank(comms, prepare); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range what {
			for _, c.Type = range types {
				for _, c.Op = range ops {
					name, seen := fmt.Sprint(c.Collective, c.Type, c.Op), make(elements, mostElements)
					for k := range draws {
						c.Exact, c.Seed, c.Skip, c.Count = true, seed, rand.Int64N(40), 1+rand.Int64N(3000)
						c.InPlace, c.Shift = k%2 == 1, rand.Int64N(4)
						if prepare == nil { // a plan has its own root
							c.Root = rand.IntN(len(hosts))
						}
						if k == 0 {
							c.Count = 20_000 // other algorithms, and several chunks
						}
						o.run(t, comms, c, seen)
					}
					if placed[name] == nil {
						placed[name] = seen
					}
					o.placement = o.placement && seen.agree(placed[name])
				}
			}
		}
	}
	return o
}

// elements are the bits of an element by its place in the sequence of inputs, plus one; 0: it was not seen.
type elements []uint64

// mostElements is more than the places of a case.
const mostElements = 4*20_000 + 40

func (e elements) agree(others elements) bool {
	for i, bits := range e {
		if other := others[i]; bits != 0 && other != 0 && bits != other {
			return false
		}
	}
	return true
}

// see enters elements of size bytes from a place on, and reports whether their bits are the ones seen before.
func (e elements) see(at int64, data []byte, size int64) bool {
	same := true
	var word [8]byte
	for ; len(data) > 0; at, data = at+1, data[size:] {
		copy(word[:], data[:size])
		bits := binary.NativeEndian.Uint64(word[:]) + 1
		same = same && (e[at] == 0 || e[at] == bits)
		e[at] = bits
	}
	return same
}

// run runs a case twice and compares its elements with the same elements in earlier cases.
func (o *observed) run(t *testing.T, comms []*goccl.Comm, c conformance.Case, seen elements) {
	t.Helper()
	got, want, err := conformance.Outputs(comms, c)
	if err != nil {
		t.Fatal(c, err)
	}
	o.cases++
	again, _, err := conformance.Outputs(comms, c)
	if err != nil {
		t.Fatal(c, err)
	}
	for r := range got {
		o.repeats = o.repeats && string(got[r]) == string(again[r])
		o.reference = o.reference && string(got[r]) == string(want[r])
		first := c.Skip
		if c.Collective == collective.ReduceScatter {
			first += int64(r) * c.Count
		}
		o.batch = seen.see(first, got[r], c.Type.Size()) && o.batch
	}
}

// fusedPromises compares the rows of fused all-reduces with the same rows in other batches, and their sums with the
// reference.
func fusedPromises(t *testing.T) (found []testutil.Promise) {
	t.Helper()
	const n = 3
	f := newFused(t, n, commtest.Host)
	for _, algorithm := range []string{"one_shot", "two_shot", "apart"} {
		o := &observed{repeats: true, batch: true, reference: true}
		for _, typ := range []datatype.Type{datatype.Bfloat16, datatype.Float16, datatype.Float32} {
			whole := f.draw(typ)
			want := fusedRows(t, f.comms, f.fusions, f.streams, &whole, algorithm)
			for _, tokens := range []int64{37, 1, 1 + rand.Int64N(37)} {
				part := whole
				part.tokens, part.skip = tokens, rand.Int64N(38-tokens)
				for i, got := range fusedRows(t, f.comms, f.fusions, f.streams, &part, algorithm) {
					o.batch = o.batch && got == want[part.skip+int64(i)]
				}
				o.cases++
			}
			inputs := make([][]byte, n)
			for r := range inputs {
				_, inputs[r] = whole.rows(uint64(r))
			}
			sums := conformance.InRankOrder(inputs, typ)
			for i, row := range want {
				size := int(whole.hidden * typ.Size())
				o.reference = o.reference && row[:size] == string(sums[i*size:(i+1)*size])
			}
		}
		found = append(found, testutil.Promise{Where: "fused with norm and quantisation, one host", Algorithm: algorithm,
			Level: o.level(false)})
	}
	f.close(t)
	return found
}

// planPromises registers each program of a reduction: what the verifier says of the order of its terms must be what
// its bits say, and from batch on only plans in rank order run.
func planPromises(t *testing.T) (found []testutil.Promise) {
	t.Helper()
	const n = 3
	collectives := map[plan.Collective]collective.Collective{plan.AllReduce: collective.AllReduce,
		plan.Reduce: collective.Reduce, plan.ReduceScatter: collective.ReduceScatter}
	for _, spec := range programs.All() {
		o := programs.Options{Ranks: n}
		if spec.Supports(o) != nil {
			continue
		}
		p, err := spec.Build(o)
		if err != nil {
			t.Fatal(err)
		}
		what, ok := collectives[p.Collective]
		if !ok || !executor.Selectable(p) || len(p.GPUs[0].SwitchGroups()) > 0 {
			continue
		}
		report, err := executor.Check(p)
		if err != nil {
			t.Fatal(err)
		}
		var ran atomic.Bool
		register := func(c *goccl.Comm) error {
			c.SetSelector(func(_ *collective.Request, list []collective.Algorithm) collective.Algorithm {
				if len(list) == 0 {
					return nil
				}
				ran.Store(true)
				return list[0]
			})
			return c.RegisterPlan(t.Context(), p)
		}
		c := []conformance.Case{{Collective: what, Root: p.Root}}
		seen := observe(t, [][]int{{0, 0, 0}}, nil, register, c)
		if !ran.Load() || !seen.repeats || report.InRankOrder && !seen.batch || !report.InRankOrder && seen.reference {
			t.Errorf("%s: the verifier says in rank order %v, its bits say %+v", spec.Name, report.InRankOrder, *seen)
		}
		ran.Store(false)
		kept := observe(t, [][]int{{0, 0, 0}}, func(_ int, cfg *goccl.Config) { cfg.Exact = collective.ExactBatch },
			register, c)
		if kept.level(false) != collective.ExactReference.String() || ran.Load() != report.InRankOrder {
			t.Errorf("%s, GOCCL_EXACT=batch: %+v, the plan ran: %v", spec.Name, *kept, ran.Load())
		}
		level := testutil.Promise{Where: "plans, one host", Algorithm: spec.Name, Level: collective.ExactRun.String()}
		if report.InRankOrder {
			level.Level = collective.ExactReference.String()
		}
		found = append(found, level)
	}
	return found
}
