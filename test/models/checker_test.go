package models

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	ranks  = 3
	epochs = 3
)

// system is what the checker explores.
type system[S comparable] struct {
	start S
	// next calls add with each thing that can happen in a state, and the state behind it.
	next func(s S, add adder[S])
	// safe describes the violation in a state, or returns "".
	safe func(s S) string
	// done reports whether a state may be the last.
	done func(s S) bool
}

type adder[S comparable] func(to S, format string, args ...any)

const mostStates = 5_000_000

// visit is a state that was reached.
type visit struct {
	first  int32   // the visit that reached it first
	before []int32 // the visits from which one step leads here
	live   bool    // an end can be reached
}

// check visits every state that can be reached and returns their number, and an error with the shortest way to what is
// wrong: an unsafe state, an end before the work is done, or a state from which no end can be reached.
func (m *system[S]) check() (int, error) {
	number := map[S]int32{m.start: 0}
	states, visits := []S{m.start}, []visit{{}}
	var ends []int32
	for i := int32(0); int(i) < len(states); i++ {
		s := states[i]
		if wrong := m.safe(s); wrong != "" {
			return len(states), m.story(states, visits, i, wrong)
		}
		stuck := true
		m.next(s, func(to S, _ string, _ ...any) {
			k, reached := number[to]
			if !reached {
				k = int32(len(states))
				number[to] = k
				states, visits = append(states, to), append(visits, visit{first: i})
			}
			visits[k].before = append(visits[k].before, i)
			stuck = false
		})
		if m.done(s) {
			ends = append(ends, i)
		} else if stuck {
			return len(states), m.story(states, visits, i, "nothing can happen any more")
		}
		if len(states) > mostStates {
			return len(states), fmt.Errorf("more than %d states: make the model smaller", mostStates)
		}
	}
	for len(ends) > 0 {
		v := &visits[ends[len(ends)-1]]
		ends = ends[:len(ends)-1]
		if !v.live {
			v.live = true
			ends = append(ends, v.before...)
		}
	}
	if i := slices.IndexFunc(visits, func(v visit) bool { return !v.live }); i >= 0 {
		return len(states), m.story(states, visits, int32(i), "no end can be reached from here")
	}
	return len(states), nil
}

// story is the way to a state.
func (m *system[S]) story(states []S, visits []visit, last int32, wrong string) error {
	var way []string
	for at := last; at != 0; at = visits[at].first {
		what := ""
		m.next(states[visits[at].first], func(to S, format string, args ...any) {
			if to == states[at] {
				what = fmt.Sprintf(format, args...)
			}
		})
		way = append(way, what)
	}
	slices.Reverse(way)
	return fmt.Errorf("%s, after\n  %s\nin %+v", wrong, strings.Join(way, "\n  "), states[last])
}

// holds checks a model, and that the checker finds each fault by its words.
func holds[S comparable](t *testing.T, m *system[S], faults map[string]*system[S]) {
	t.Helper()
	n, err := m.check()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states", n)
	for words, f := range faults {
		_, what, _ := strings.Cut(words, ": ")
		n, err := f.check()
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: in %d states the checker finds: %v", words, n, err)
		}
	}
}

// each returns a value of each rank.
func each[T any](v T) (of [ranks]T) {
	for r := range of {
		of[r] = v
	}
	return of
}

// peersOf returns the ranks without one, a bit set.
func peersOf(r int) uint8 { return 1<<ranks - 1 - 1<<r }

// reached reports whether all ranks have reached a number.
func reached(n uint8, of [ranks]uint8) bool { return slices.Min(of[:]) >= n }

// blame describes the violation of a rank, whose number plus one is culprit; 0: there is none.
func blame(culprit uint8, format string) string {
	if culprit == 0 {
		return ""
	}
	return fmt.Sprintf(format, culprit-1)
}
