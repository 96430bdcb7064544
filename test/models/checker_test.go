package models

import (
	"fmt"
	"slices"
	"strings"
)

// system is what the checker explores.
type system[S comparable] struct {
	start S
	// next lists what can happen in a state.
	next func(s S) []step[S]
	// safe describes the violation in a state, or returns "".
	safe func(s S) string
	// done reports whether a state may be the last.
	done func(s S) bool
}

// step is one thing that happens, and the state behind it.
type step[S comparable] struct {
	what string
	to   S
}

// came is how a state was reached first.
type came[S comparable] struct {
	from S
	what string
}

const mostStates = 5_000_000

// check visits every state that can be reached and returns their number, and an error with the shortest way to what is
// wrong: an unsafe state, an end before the work is done, or a state from which no end can be reached.
func (m *system[S]) check() (states int, err error) {
	reached := map[S]came[S]{m.start: {}}
	queue := []S{m.start}
	before := map[S][]S{} // the states from which one step leads to the key
	var ends []S
	for i := 0; i < len(queue); i++ {
		s := queue[i]
		if wrong := m.safe(s); wrong != "" {
			return len(reached), m.story(reached, s, wrong)
		}
		steps := m.next(s)
		if m.done(s) {
			ends = append(ends, s)
		} else if len(steps) == 0 {
			return len(reached), m.story(reached, s, "nothing can happen any more")
		}
		for _, t := range steps {
			before[t.to] = append(before[t.to], s)
			if _, seen := reached[t.to]; !seen {
				reached[t.to] = came[S]{s, t.what}
				queue = append(queue, t.to)
			}
		}
		if len(reached) > mostStates {
			return len(reached), fmt.Errorf("more than %d states: make the model smaller", mostStates)
		}
	}
	live := map[S]bool{}
	for len(ends) > 0 {
		s := ends[len(ends)-1]
		ends = ends[:len(ends)-1]
		if !live[s] {
			live[s] = true
			ends = append(ends, before[s]...)
		}
	}
	for _, s := range queue {
		if !live[s] {
			return len(reached), m.story(reached, s, "no end can be reached from here")
		}
	}
	return len(reached), nil
}

// story is the way to a state.
func (m *system[S]) story(reached map[S]came[S], s S, wrong string) error {
	var way []string
	for at := s; at != m.start; at = reached[at].from {
		way = append(way, reached[at].what)
	}
	slices.Reverse(way)
	return fmt.Errorf("%s, after\n  %s\nin %+v", wrong, strings.Join(way, "\n  "), s)
}
