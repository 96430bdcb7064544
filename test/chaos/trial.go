package chaos

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// Trial is one job and its fault. Everything in it follows from the seed, the fault and the phase.
type Trial struct {
	Fault, Phase string
	Seed         uint64
	Ranks        int   // of the communicator; the phase "grow" has one process more
	Victims      []int // ranks that the fault strikes
	Delay        time.Duration
	Address      string
	Rank         int // of the process that reads this; -1: RANK tells it
	// Hold bounds a wait for peers: it makes a stopped rank an error.
	Hold   time.Duration
	CUDA   bool    // rank r is on GPU r, modulo their number
	Shared bool    // other trials use the same GPUs meanwhile: free memory there says nothing of this one
	Slow   float64 // see Options
}

// limit bounds a trial's steps: a rank that needs longer hangs.
const limit = 30 * time.Second

// hold is long enough for a busy machine, if nothing else is said.
const hold = 20 * time.Second

// draw makes trial number i of a cell.
func draw(f *fault, p *phase, seed uint64, i, ranks int) Trial {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%d", f.Name, p.Name, i)
	s := seed ^ h.Sum64()
	rng := rand.New(rand.NewPCG(s, 17))
	t := Trial{Fault: f.Name, Phase: p.Name, Seed: s, Ranks: ranks, Hold: hold, Slow: 1,
		Delay: time.Duration(rng.Int64N(int64(p.window)))}
	if f.hold > 0 {
		t.Hold = f.hold
	}
	if f.victims != nil {
		t.Victims = f.victims(rng, p.processes(ranks))
		slices.Sort(t.Victims)
	}
	t.Address = fmt.Sprintf("unix:@goccl-chaos-%d-%016x", os.Getpid(), s)
	return t
}

// remaining lists the ranks of the communicator that go on after the fault.
func (t *Trial) remaining(f *fault) []int {
	if f.expect == mismatch {
		return everyone(t.Ranks)
	}
	return t.survivors()
}

// struck reports whether the fault strikes this process's rank.
func (t *Trial) struck() bool { return slices.Contains(t.Victims, t.Rank) }

// survivors lists the ranks of the communicator that the fault does not strike.
func (t *Trial) survivors() []int {
	var out []int
	for r := range t.Ranks {
		if !slices.Contains(t.Victims, r) {
			out = append(out, r)
		}
	}
	return out
}

// oneOf, two, root and allButOne draw victims among the processes of a trial.
func oneOf(rng *rand.Rand, n int) []int { return []int{rng.IntN(n)} }

func two(rng *rand.Rand, n int) []int { return rng.Perm(n)[:2] }

func root(*rand.Rand, int) []int { return []int{0} }

func allButOne(rng *rand.Rand, n int) []int { return rng.Perm(n)[:n-1] }
