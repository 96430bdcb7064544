package chaos

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	errs "github.com/goccl/goccl/internal/fault"
)

// expectation is what must follow from a fault.
type expectation int

const (
	death        expectation = iota // an error names a victim, which is dead; the others shrink and go on
	stall                           // an error names a victim, after the deadline; the others shrink and go on
	leaving                         // an error names a victim, which lives and has aborted; the others shrink and go on
	mismatch                        // an error names a rank that calls something else
	nothing                         // no error: the fault is none
	typed                           // success, or an error of goccl that names a victim, on every rank that lives
	cut                             // an error names a rank of the other host; each host shrinks and goes on
	otherRelease                    // an error names a victim and says that it has another release
)

// fault is a row of the scoreboard.
type fault struct {
	Name    string
	Number  int // in the list of docs/reliability.md
	Help    string
	expect  expectation
	victims func(rng *rand.Rand, n int) []int
	// strike happens in each victim, Delay after the phase's begin. Some never return.
	strike func(r *rank)
	// call changes calls of the victims.
	call func(c *call)
	// phases are those in which the fault can happen; nil: all with one host.
	phases []string
	hold   time.Duration
	// tool is a program without which the fault is not possible.
	tool string
	// prefix is the beginning of the command of each process.
	prefix []string
	// before is done before the ranks start.
	before func(x *experiment, program []string) error
	// verdict is the expected kind of the errors' verdicts, if the expectation does not imply it.
	verdict errs.VerdictKind
	// outside is done by the process that runs the trial, once every rank has begun the phase.
	outside func(x *experiment) error
	line    bool // the hosts are connected by a badnet.Line
	// partition: the ranks can only know after setting.Unreachable.
	partition bool
	// tap changes what the last rank and rank 0 send each other first when they join; nil: no tap is needed.
	tap     func(greeting []byte)
	stretch time.Duration // how long a phase lasts at least that ends by itself
}

var (
	collectives = []string{"small", "large", "plan"}
	operations  = []string{"set-up", "small", "large", "split", "colors", "shrink", "plan"}
)

func faults() []*fault {
	return slices.Concat(deaths(), stops(), mismatches(), misuses(), surroundings(), strangers(), networks())
}

func deaths() []*fault {
	return []*fault{
		{Name: "kill", Number: 1, Help: "kill -9 of one rank", victims: oneOf, strike: (*rank).kill},
		{Name: "kill-root", Number: 2, Help: "kill -9 of rank 0, whose process hosts the bootstrap", victims: root,
			strike: (*rank).kill},
		{Name: "kill-two", Number: 2, Help: "kill -9 of two ranks at once", victims: two, strike: (*rank).kill},
		{Name: "kill-all-but-one", Number: 2, Help: "kill -9 of all ranks but one", victims: allButOne,
			strike: (*rank).kill},
		{Name: "exit", Number: 8, Help: "a rank calls exit while its peers use its memory", victims: oneOf,
			strike: (*rank).exit},
		{Name: "panic", Number: 1, Help: "a Go panic in one rank", victims: oneOf, strike: (*rank).panic},
		{Name: "sigabrt", Number: 1, Help: "SIGABRT, which C's abort raises, in one rank", victims: oneOf,
			strike: (*rank).sigabrt},
	}
}

func stops() []*fault {
	return []*fault{
		{Name: "pause", Number: 3, Help: "SIGSTOP of one rank, and SIGCONT 0.3 s later", expect: nothing, victims: oneOf,
			strike: (*rank).stop, outside: (*experiment).goOn},
		{Name: "pause-all", Number: 25, Help: "SIGSTOP of all ranks for 1 s, as a virtual machine's pause", expect: nothing,
			outside: (*experiment).pauseAll},
		{Name: "clock", Number: 25, Help: "the wall clock of one rank jumps by hours, to and fro, for 0.6 s", expect: nothing,
			victims: oneOf, strike: (*rank).jump, stretch: jumping},
		{Name: "stop", Number: 4, Help: "SIGSTOP of one rank for longer than the deadline of 1 s", expect: stall,
			victims: oneOf, strike: (*rank).stop, phases: append([]string{"proxy"}, operations...), hold: time.Second},
		{Name: "abort", Number: 24, Help: "one rank aborts the communicator", expect: leaving, victims: oneOf,
			strike: (*rank).abort, phases: append([]string{"between"}, operations...)},
		{Name: "slow", Number: 21, Help: "one rank comes 5 s late", expect: nothing, victims: oneOf, strike: (*rank).late,
			phases: []string{"small", "large", "split", "colors", "plan"}},
		{Name: "skew", Number: 21, Help: "every rank pauses at random before each operation", expect: nothing,
			phases: []string{"skewed"}},
		{Name: "desync", Number: 5, Help: "one rank leaves out a call, deadline 1 s", expect: stall, victims: oneOf,
			call: func(c *call) { c.skip = true }, phases: operations, hold: time.Second,
			verdict: errs.VerdictMissing},
	}
}

// mismatches are calls of one rank that differ from the others'.
func mismatches() (out []*fault) {
	for _, m := range []struct {
		name, help string
		change     func(c *call)
	}{
		{"count", "another count", func(c *call) { c.Count-- }},
		{"type", "another element type", func(c *call) { c.Type = datatype.Float32 }},
		{"op", "another reduction", func(c *call) { c.Op = datatype.Max }},
		{"collective", "another collective", func(c *call) { c.Collective, c.Count = collective.AllGather, c.Count/8 }},
		{"root", "a reduce in place of an all-reduce", func(c *call) { c.Collective, c.Root = collective.Reduce, 1 }},
		{"barrier", "a barrier", func(c *call) { c.Collective = collective.Barrier }},
	} {
		out = append(out, &fault{Name: "mismatch-" + m.name, Number: 6, Help: "one rank calls with " + m.help,
			expect: mismatch, victims: oneOf, call: m.change, phases: collectives})
	}
	return append(out, &fault{Name: "mismatch-call", Number: 6, Help: "one rank makes another call: Grow in place of " +
		"Split, Split in place of Shrink, NewComm with other plans", expect: mismatch, victims: oneOf,
		call: func(c *call) { c.other = true }, phases: []string{"set-up", "split", "colors", "shrink"}})
}

// runs reports whether the fault can happen in a phase.
func (f *fault) runs(p *phase) bool {
	if f.phases != nil {
		return slices.Contains(f.phases, p.Name)
	}
	return !p.special
}

// lookUp returns the fault or phase of a name, or nil.
func lookUp[T interface{ name() string }](list []T, name string) (found T) {
	for _, x := range list {
		if x.name() == name {
			return x
		}
	}
	return found
}

func (f *fault) name() string { return f.Name }
func (p *phase) name() string { return p.Name }
