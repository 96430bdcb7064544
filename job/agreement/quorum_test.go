package agreement

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/goccl/goccl/internal/setting"
)

// ranksOf returns the ranks of a bit mask.
func ranksOf(mask uint) (ranks []int) {
	for ; mask != 0; mask &= mask - 1 {
		ranks = append(ranks, bits.TrailingZeros(mask))
	}
	return ranks
}

// At most one of two parts without a common rank goes on, whatever the rule. With QuorumMajority more than half go on.
func TestQuorumOfOnePartOnly(t *testing.T) {
	for n := 1; n <= 7; n++ {
		backwards := make([]int, n)
		for r := range backwards {
			backwards[r] = n - r
		}
		for _, numbers := range [][]int{nil, backwards} {
			for rule := setting.QuorumMajority; rule <= setting.QuorumRank+setting.Quorum(n+1); rule++ {
				for a := uint(1); a < 1<<n; a++ {
					if !Quorum(rule, n, numbers, ranksOf(a)) {
						if rule == setting.QuorumMajority && 2*bits.OnesCount(a) > n {
							t.Errorf("ranks %v of %d may not go on", ranksOf(a), n)
						}
						continue
					}
					rest := uint(1)<<n - 1 - a
					for b := rest; b != 0; b = (b - 1) & rest {
						if Quorum(rule, n, numbers, ranksOf(b)) {
							t.Fatalf("%v of %d ranks %v: both %v and %v go on", rule, n, numbers, ranksOf(a), ranksOf(b))
						}
					}
				}
			}
		}
	}
}

func TestQuorum(t *testing.T) {
	for _, c := range []struct {
		rule    string
		size    int
		numbers []int
		members []int
		want    bool
	}{
		{"off", 4, nil, []int{3}, true},
		{"majority", 4, nil, []int{0, 3}, true},
		{"majority", 4, nil, []int{1, 2}, false},
		{"majority", 4, nil, []int{1, 2, 3}, true},
		{"majority", 5, nil, []int{0, 1}, false},
		{"rank 3", 4, nil, []int{3}, true},
		{"rank 3", 4, nil, []int{0, 1, 2}, false},
		{"rank 3", 3, []int{1, 3, 5}, []int{1}, true},
		{"rank 3", 3, []int{1, 3, 5}, []int{0, 2}, false},
		{"rank 3", 3, []int{0, 1, 2}, []int{0}, false}, // rank 3 is not of this communicator: the majority
		{"rank 3", 3, []int{0, 1, 2}, []int{1, 2}, true},
	} {
		rule, ok := setting.ParseQuorum(c.rule)
		if got := Quorum(rule, c.size, c.numbers, c.members); got != c.want || !ok || rule.String() != c.rule {
			t.Errorf("%+v as %v: %v", c, rule, got)
		}
	}
}

// cut partitions the network: of the messages on their way to the other side each rank gets only some, the oldest ones,
// and then learns that the other side is dead.
func (w *network) cut(sides []bool) {
	for from := range w.ways {
		for to, q := range w.ways[from] {
			if sides[from] != sides[to] {
				w.ways[from][to] = q[:w.rng.IntN(len(q)+1)]
			}
		}
	}
	w.sides = sides
}

// Every rank of each side of a partition decides, or learns that it is excluded. All that decide on one side have the
// same outcome.
func TestPartition(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		rounds = 500
	}
	both := 0 // rounds in which the sides have different outcomes
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := 2 + rng.IntN(6)
		w := newNetwork(t, rng, n)
		sides := make([]bool, n)
		for r := range n {
			w.lists = append(w.lists, NewSet(n))
			sides[r] = rng.IntN(2) == 0
		}
		w.run(rng.IntN(3*n*n), false)
		w.cut(sides)
		for range 20 {
			w.settle()
		}
		outcomes := map[bool]string{}
		for r, o := range w.result {
			switch {
			case w.excluded[r]:
			case o == nil:
				t.Fatalf("seed %d: rank %d of %d does not decide; it waits for %v", seed, r, n, w.states[r].waitsFor())
			case outcomes[sides[r]] == "":
				outcomes[sides[r]] = string(o.ID())
			case outcomes[sides[r]] != string(o.ID()):
				t.Fatalf("seed %d: the side of rank %d has two outcomes", seed, r)
			}
		}
		if len(outcomes) == 2 && outcomes[false] != outcomes[true] {
			both++
		}
	}
	if both < rounds/10 {
		t.Errorf("only %d of %d partitions gave two outcomes", both, rounds)
	}
}
