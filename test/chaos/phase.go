package chaos

import (
	"math/rand/v2"
	"time"

	"github.com/goccl/goccl"
)

// phase is a column of the scoreboard: what the ranks do when the fault strikes.
type phase struct {
	Name   string        `json:"name"`
	Help   string        `json:"help"`
	window time.Duration // in which the fault strikes, from the phase's begin
	// use is the phase, in every rank, on a communicator that works. It returns the error that ends it, or nil after it
	// has run long enough without one. nil: the phase is part of every rank's way to the communicator.
	use   func(r *rank) error
	extra int   // processes beyond the communicator's ranks
	count int64 // elements of an all-reduce
	// special phases are for faults that name them.
	special bool
	hosts   bool // the ranks are divided among two hosts
	// collective: the ranks wait for each other in collectives, within OpTimeout; else within Timeout.
	collective bool
	// colors are the colors of the ranks of a Split, by the trial's seed.
	colors func(t *Trial) []int
}

const ms = time.Millisecond

func phases() []*phase {
	return []*phase{
		{Name: "joining", Help: "the ranks meet", window: 4 * ms},
		{Name: "set-up", Help: "NewComm", window: 6 * ms},
		{Name: "small", Help: "all-reduces of 1 KiB", window: 10 * ms, count: 256, use: (*rank).reduce, collective: true},
		{Name: "large", Help: "all-reduces of 16 MiB", window: 60 * ms, count: 4 << 20, use: (*rank).reduce,
			collective: true},
		{Name: "between", Help: "no operation runs", window: 2 * ms, use: (*rank).idle, collective: true},
		{Name: "split", Help: "Split, use, Close, again and again", window: 8 * ms, use: (*rank).split, colors: oneColor},
		{Name: "colors", Help: "the same with several colors, NoColor among them", window: 8 * ms, use: (*rank).split,
			colors: someColors},
		{Name: "shrink", Help: "Shrink without a rank that lives", window: 3 * ms, use: (*rank).shrinking},
		{Name: "grow", Help: "Grow by a new process", window: 12 * ms, use: (*rank).grow, extra: 1},
		{Name: "close", Help: "Finalize and Close", window: 2 * ms, use: (*rank).finish},
		{Name: "plan", Help: "all-reduces by an execution plan", window: 10 * ms, count: 1 << 12, use: (*rank).plan,
			collective: true},
		{Name: "proxy", Help: "port channels over TCP", window: 10 * ms, use: (*rank).proxy, collective: true},
		{Name: "two", Help: "all-reduces on two communicators in turn", window: 10 * ms, count: 256, use: (*rank).both,
			special: true, collective: true},
		{Name: "hosts-set-up", Help: "NewComm between two hosts", window: 60 * ms, special: true, hosts: true},
		{Name: "hosts-small", Help: "all-reduces of 1 KiB over TCP between two hosts", window: 20 * ms, count: 256,
			use: (*rank).reduce, special: true, hosts: true, collective: true},
		{Name: "hosts-large", Help: "all-reduces of 16 MiB over TCP between two hosts", window: 60 * ms, count: 4 << 20,
			use: (*rank).reduce, special: true, hosts: true, collective: true},
		{Name: "hosts-colors", Help: "Split of two hosts by colors, use, Close, again and again", window: 60 * ms,
			use: (*rank).split, colors: someColors, special: true, hosts: true},
		{Name: "skewed", Help: "1000 all-reduces of 1 KiB", window: 2 * ms, count: 256, use: (*rank).skewed, special: true},
	}
}

func oneColor(t *Trial) []int { return make([]int, t.Ranks) }

// someColors gives every third trial one rank a color for itself and the others another one; the rest of the trials
// have two colors and NoColor at random.
func someColors(t *Trial) []int {
	rng := rand.New(rand.NewPCG(t.Seed, 23))
	colors := make([]int, t.Ranks)
	if alone := rng.IntN(3 * t.Ranks); alone < t.Ranks {
		colors[alone] = 1
		return colors
	}
	for r := range colors {
		colors[r] = []int{0, 1, 0, 1, goccl.NoColor}[rng.IntN(5)]
	}
	return colors
}

// processes is the number of processes of a trial.
func (p *phase) processes(ranks int) int { return ranks + p.extra }
