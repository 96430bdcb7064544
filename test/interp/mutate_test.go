package interp_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
	"github.com/goccl/goccl/test/mutant"
)

var (
	mutants = flag.Int("mutants", 0, "mutants of each plan; 0: 12, or 400 with GOCCL_FULL=1")
	seed    = flag.Uint64("mutation-seed", 1, "which mutants")
)

// TestMutants makes small changes to plans: every shipped program, in several shapes, and the plans of the scripts,
// which have semaphores, barriers, pipelines, slices and port channels. A mutant that the verifier still accepts must
// be as good as the original: it fails in no order of steps, for small messages and two or three threads per block. The
// test fails on a mutant that fails, or that has too many orders to run.
func TestMutants(t *testing.T) {
	n := *mutants
	if n == 0 {
		n = 12
		if os.Getenv("GOCCL_FULL") != "" {
			n = 400
		}
	}
	type outcome struct{ rejected, equivalent, orders int }
	fewer := 0
	tally, by := map[string]outcome{}, map[string]outcome{} // by mutation, by program
	try := func(name string, p *plan.Plan) {
		h := fnv.New64a()
		h.Write([]byte(name))
		rng := rand.New(rand.NewPCG(*seed, h.Sum64()))
		text := p.Encode()
		for i := range n {
			q, err := plan.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			what := mutant.Mutate(q, rng)
			if what != "" && rng.IntN(4) == 0 { // two errors may hide each other
				if second := mutant.Mutate(q, rng); second != "" {
					what = "two at once: " + what + "; " + second
				}
			}
			if what == "" || bytes.Equal(q.Encode(), text) {
				continue
			}
			kind, _, _ := strings.Cut(what, ":")
			program, _, _ := strings.Cut(name, "/")
			a, b := tally[kind], by[program]
			if r, err := verify.Check(q, verify.Options{}); err != nil {
				a.rejected++
				b.rejected++
			} else {
				a.equivalent++
				b.equivalent++
				for threads := 2; threads <= 3; threads++ {
					sizes := small(q, r.EvenOnly)
					e, err := interp.Explore(q, interp.ExploreOptions{Sizes: sizes, Threads: threads, Runs: 1024})
					// two threads that signal one channel double the orders in each launch
					for errors.Is(err, interp.ErrUnexplored) && len(sizes) > 1 {
						sizes = sizes[1:]
						fewer++
						e, err = interp.Explore(q, interp.ExploreOptions{Sizes: sizes, Threads: threads, Runs: 1024})
					}
					if err != nil {
						t.Errorf("%s, mutant %d (%s) passes the verifier, and: %v", name, i, what, err)
						continue
					}
					a.orders += e.Runs
					b.orders += e.Runs
				}
			}
			tally[kind], by[program] = a, b
		}
	}
	shapes := []programs.Options{{Ranks: 2, Instances: 1}, {Ranks: 3, Instances: 1}, {Ranks: 2, Instances: 2},
		{Ranks: 4, Hosts: 2, Instances: 1}}
	shipped(t, shapes, try)
	scripts(t, try)
	foreign(t, try)
	total := outcome{}
	for title, table := range map[string]map[string]outcome{"mutation": tally, "program": by} {
		lines := make([]string, 0, len(table))
		for k, n := range table {
			lines = append(lines, fmt.Sprintf("%-28s %6d rejected %6d equivalent in %6d orders", k, n.rejected, n.equivalent,
				n.orders))
			if title == "program" {
				total.rejected += n.rejected
				total.equivalent += n.equivalent
				if n.rejected == 0 {
					t.Errorf("no mutant of %s is rejected", k)
				}
			}
		}
		sort.Strings(lines)
		t.Logf("by %s\n%s", title, strings.Join(lines, "\n"))
	}
	for _, p := range programs.All() {
		if _, ok := by[p.Name]; !ok {
			t.Errorf("%s has no mutants", p.Name)
		}
	}
	t.Logf("%d mutants: %d rejected, %d equivalent; %d times fewer launches, because of too many orders",
		total.rejected+total.equivalent, total.rejected, total.equivalent, fewer)
}

// scripts calls f for every correct plan of the verifier's scripts and of the language's golden files.
func scripts(t *testing.T, f func(name string, p *plan.Plan)) {
	files, err := filepath.Glob("../../plan/verify/testdata/*.txtar")
	golden, err2 := filepath.Glob("../../plan/dsl/testdata/*.json")
	if err != nil || err2 != nil || len(files) == 0 || len(golden) == 0 {
		t.Fatal(err, err2, len(files), len(golden))
	}
	for _, file := range append(files, golden...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".txtar") {
			data = txtar.Parse(data).Files[0].Data
		}
		p, err := plan.Decode(data)
		// Two writers of one packet double the orders with each packet and thread.
		if err != nil || p.Name == "packet_repeated_by_two" {
			continue
		}
		if _, err := verify.Check(p, verify.Options{}); err != nil {
			continue
		}
		f("script "+filepath.Base(file), p)
	}
}
