package agreement

// state is a rank's state in one step. It does no I/O.
type state struct {
	rank    int
	place   place
	joint   uint64          // this rank's latest completed joint call
	known   []*Contribution // by rank
	done    Set             // the ranks that this rank ignores
	latest  []*message      // by rank: its latest state
	outcome bool            // the step is decided
}

func newState(rank, size int, at place, mine Contribution) *state {
	s := &state{rank: rank, place: at, known: make([]*Contribution, size), done: NewSet(size),
		latest: make([]*message, size)}
	s.learn(rank, &mine)
	return s
}

// learn records a contribution.
func (s *state) learn(r int, c *Contribution) (changed bool) {
	if c == nil || s.known[r] != nil {
		return false
	}
	s.known[r] = c
	s.done.join(c.Excludes)
	return true
}

// take processes a state or an outcome of a peer, and reports whether this rank's state has changed.
func (s *state) take(from int, m *message) (changed bool) {
	if s.done.Has(from) || s.outcome {
		return false
	}
	for r, c := range m.known {
		changed = s.learn(r, c) || changed
	}
	changed = s.done.join(m.done) || changed
	s.latest[from] = m
	s.outcome = m.kind == kindDecided
	return changed
}

// lose records that a peer is dead. All its messages have been processed before.
func (s *state) lose(peer int) (changed bool) {
	if s.done.Has(peer) {
		return false
	}
	s.done.Add(peer)
	return true
}

// decided reports whether the step is decided.
func (s *state) decided() bool {
	s.outcome = s.outcome || len(s.waitsFor()) == 0
	return s.outcome
}

// waitsFor returns the ranks that keep the step from being decided: those that have not contributed or, if there are
// none, those that have not reported this rank's state.
func (s *state) waitsFor() (ranks []int) {
	for r, c := range s.known {
		if c == nil && !s.done.Has(r) {
			ranks = append(ranks, r)
		}
	}
	if len(ranks) > 0 {
		return ranks
	}
	known := knownSet(s.known)
	for r, m := range s.latest {
		if r == s.rank || s.done.Has(r) {
			continue
		}
		if m == nil || !m.done.Equal(s.done) || !knownSet(m.known).Equal(known) {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// message encodes the state for the other ranks.
func (s *state) message() *message {
	m := &message{kind: kindState, place: s.place, blames: -1, joint: s.joint, done: s.done, known: s.known}
	if s.outcome {
		m.kind = kindDecided
	}
	return m
}
