package agreement

import (
	"math/rand/v2"
	"testing"
)

// network is a set of ranks that agree, with their messages in flight. A seed determines the order of all events.
type network struct {
	t      *testing.T
	rng    *rand.Rand
	states []*state
	ways   [][][]*message // from, to: messages in flight
	dead   []bool
	began  []bool
	result []*Outcome
	lists  []Set

	sides    []bool // of a partition; nil: none
	excluded []bool // ranks that know that they are excluded
}

func newNetwork(t *testing.T, rng *rand.Rand, n int) *network {
	w := &network{t: t, rng: rng, states: make([]*state, n), ways: make([][][]*message, n), dead: make([]bool, n),
		began: make([]bool, n), result: make([]*Outcome, n), excluded: make([]bool, n)}
	for r := range n {
		w.ways[r] = make([][]*message, n)
	}
	return w
}

// apart reports whether a partition is between two ranks.
func (w *network) apart(a, b int) bool { return w.sides != nil && w.sides[a] != w.sides[b] }

// say broadcasts; the rank may die during the broadcast.
func (w *network) say(r int, mortal bool) {
	m := w.states[r].message()
	b := m.encode()
	for _, p := range w.rng.Perm(len(w.states)) {
		if p == r || w.states[r].done.Has(p) || w.apart(r, p) {
			continue
		}
		if mortal && w.rng.IntN(40) == 0 {
			w.dead[r] = true
			return
		}
		copied, err := decode(append([]byte{}, b...), len(w.states))
		if err != nil {
			w.t.Fatal(err)
		}
		w.ways[r][p] = append(w.ways[r][p], copied)
	}
}

func (w *network) step(mortal bool) {
	n := len(w.states)
	r := w.rng.IntN(n)
	if w.dead[r] || w.excluded[r] || w.result[r] != nil {
		return
	}
	if !w.began[r] {
		w.began[r] = true
		w.states[r] = newState(r, n, place{1, 0}, Contribution{Excludes: w.lists[r], Fine: true, Nonce: w.rng.Uint64()})
		w.say(r, mortal)
		return
	}
	s, from, changed := w.states[r], w.rng.IntN(n), false
	switch q := w.ways[from][r]; {
	case len(q) > 0:
		w.ways[from][r] = q[1:]
		if w.sides != nil && !s.done.Has(from) && q[0].done.Has(r) {
			w.excluded[r] = true
			return
		}
		changed = s.take(from, q[0])
	case (w.dead[from] || w.apart(from, r)) && w.rng.IntN(3) == 0:
		changed = s.lose(from)
	}
	switch {
	case s.decided():
		w.result[r] = &Outcome{Known: append([]*Contribution{}, s.known...), place: s.place}
		w.say(r, mortal)
	case changed:
		w.say(r, mortal)
	}
}

// settle executes all remaining events.
func (w *network) settle() { w.run(200*len(w.states), false) }

func (w *network) run(steps int, mortal bool) {
	for range steps {
		w.step(mortal)
	}
}

// All ranks that decide have the same outcome, whichever ranks die at any time, and all live ranks decide.
func TestEveryOutcomeIsTheSame(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		rounds = 500
	}
	several := 0
	for seed := range uint64(rounds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 2 + rng.IntN(6)
		w := newNetwork(t, rng, n)
		gone := n - 1 // excluded by some of the ranks
		for r := range n {
			w.lists = append(w.lists, NewSet(n))
			if rng.IntN(2) == 0 {
				w.lists[r].Add(gone)
			}
		}
		w.lists[rng.IntN(n-1)].Add(gone)
		w.dead[gone] = rng.IntN(2) == 0 // dead, or stopped: then no death is reported, and the exclude lists must suffice
		w.began[gone] = true
		stopped := !w.dead[gone]
		if stopped { // it sends nothing and receives nothing
			w.result[gone] = &Outcome{}
		}
		for i := range 3000 {
			w.step(i < 2000)
		}
		for range 10 {
			w.settle()
		}
		var first *Outcome
		deaths := 0
		for r, o := range w.result {
			if w.dead[r] {
				deaths++
			}
			switch {
			case r == gone || w.dead[r] && o == nil:
			case o == nil:
				// The exclude list of a dead rank may be lost with it: then the others wait for the stopped rank.
				if !stopped || excludesAny(w, gone) {
					t.Fatalf("seed %d: rank %d of %d does not decide; it waits for %v", seed, r, n, w.states[r].waitsFor())
				}
			case first == nil:
				first = o
			case string(first.ID()) != string(o.ID()):
				t.Fatalf("seed %d: members %v here and %v there", seed, first.Members(), o.Members())
			}
		}
		if deaths > 1 {
			several++
		}
	}
	if several < rounds/10 {
		t.Errorf("only %d of %d rounds had several deaths", several, rounds)
	}
}

// excludesAny reports whether a live rank has gone in its exclude list.
func excludesAny(w *network, gone int) bool {
	for r, l := range w.lists {
		if r != gone && !w.dead[r] && l.Has(gone) {
			return true
		}
	}
	return false
}
