package executor

import (
	command "flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/mutant"
)

var (
	mutants = command.Int("mutants", usual(2, 4), "mutants of each program and shape; those that pass the verifier "+
		"run; by default 2, or 4 with GOCCL_FULL=1")
	mutantSeed = command.Uint64("mutation-seed", 1, "which mutants")
	mutantOnly = command.String("mutants-of", "", "the program to change; default: all")
	mutantSave = command.String("mutants-save", "", "file to which accepted mutants are written; none runs")
	mutantFrom = command.String("mutants-from", "", "file from which mutants are read, instead of making them")
	mutantFor  = command.Duration("mutants-for", 0, "no mutant begins to run after that time; 0: all run")
	mutantSize = command.Int("mutant-ranks", 0, "ranks of the plans that are changed; default: 2, 3, and 4 on two hosts")
	mutantRuns = command.Int("mutant-messages", usual(1, 2), "sizes of messages that each mutant runs; by default 1, "+
		"or 2 with GOCCL_FULL=1")
)

// usual returns a default of a flag: n, or full with GOCCL_FULL=1.
func usual(n, full int) int {
	if setting.Lenient().Full != "" {
		return full
	}
	return n
}

// MutantsOver returns a function that says whether the time for mutants is over.
func MutantsOver() func() bool {
	begun := time.Now()
	return func() bool { return *mutantFor > 0 && time.Since(begun) > *mutantFor }
}

// EachMutant calls f for the mutants of all programs that the verifier accepts, with sizes of messages
// to run. Making them takes longer than running them on GPUs: -mutants-save and -mutants-from divide the work.
func EachMutant(t *testing.T, f func(name string, q *plan.Plan, messages []uint64)) {
	if *mutantFrom != "" {
		readMutants(t, *mutantFrom, f)
		return
	}
	if *mutantSave != "" {
		f = writeMutants(t, *mutantSave)
	}
	total := map[string]mutant.Tally{}
	for _, spec := range programs.All() {
		if *mutantOnly != "" && spec.Name != *mutantOnly {
			continue
		}
		n := total[spec.Name]
		for _, o := range mutantShapes() {
			for _, inPlace := range []bool{false, true} {
				o.InPlace = inPlace
				if spec.Supports(o) != nil {
					continue
				}
				p, err := spec.Build(o)
				if err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("%s/%d-%d-%v", spec.Name, o.Ranks, o.Instances, inPlace)
				rng := rand.New(rand.NewPCG(*mutantSeed, uint64(len(name))))
				n.Add(mutant.Accepted(name, p, *mutantSeed, *mutants, func(what string, q *plan.Plan, r *verify.Report) {
					if !t.Failed() {
						f(name+" ("+what+")", q, mutant.Messages(q, r, uint64(datatype.Float32.Size()), *mutantRuns, 4096,
							rng))
					}
				}))
			}
		}
		total[spec.Name] = n
		if *mutants > 100 {
			t.Logf("%-28s %7d mutants, %6d accepted, %6d of them different", spec.Name, n.Tried, n.Accepted, n.Distinct)
		}
	}
	sum := mutant.Tally{}
	for _, n := range total {
		sum.Add(n)
	}
	t.Logf("%d mutants, %d accepted, %d of them different", sum.Tried, sum.Accepted, sum.Distinct)
}

// mutantShapes are the shapes of programs that are changed.
func mutantShapes() []programs.Options {
	if n := *mutantSize; n%2 == 1 {
		return []programs.Options{{Ranks: n, Instances: 1}}
	} else if n > 0 {
		return []programs.Options{{Ranks: n, Instances: 1}, {Ranks: n, Hosts: 2, Instances: 1}}
	}
	return []programs.Options{{Ranks: 2, Instances: 1}, {Ranks: 3, Instances: 1}, {Ranks: 4, Hosts: 2, Instances: 1}}
}

// kernelMutants runs accepted mutants with the kernel's source.
func kernelMutants(t *testing.T, program string) {
	runs := 0
	EachMutant(t, func(name string, q *plan.Plan, messages []uint64) {
		op := datatype.Sum
		if fixed, mixed := q.Operator(); mixed || fixed != plan.CallerOp {
			op = fixed.Or(datatype.Sum)
		}
		for _, m := range messages {
			c := emulation{plan: q, message: m, t: datatype.Float32, op: op, threads: 3, launches: 3}
			if err := c.run(t, program); err != nil {
				t.Errorf("%s, %d bytes: %v\n%s", name, m, err, q.Encode())
			}
			runs++
		}
	})
	t.Logf("%d runs with the kernel's source: 0 wrong, 0 hung", runs)
}
