package models

import (
	"fmt"
	"testing"
)

// Token: every operation of a rank's stream gives free to all peers, takes it from all, copies into each peer's
// memory, gives full to all, takes it from all, and reads what the peers have copied (engine/nvlink, tokens). A
// token is a word that its giver sets and its taker clears. A rank may die; the hosts of the others then raise
// their own tokens for ever. Property: no token is given twice before it is taken, no rank copies into memory that
// is still to be read, each reads what its peers have copied in the same operation, and all ends, also after a
// death.

type tokenState struct {
	at     [ranks]uint8          // steps done of the operation
	op     [ranks]uint8          // operations done
	tokens [2][ranks][ranks]bool // by kind, giver and taker
	memory [ranks][ranks]uint8   // by owner and writer: the operation that has copied
	dead   bool                  // rank 0
	raised [ranks]bool
	told   [ranks]bool // that rank 0 is dead
	wrong  string
}

type tokenFaults struct {
	noFree, noFull bool // that token is not waited for
	early          bool // full is given before the copies
	keep           bool // a taken token is not cleared
	lowers         bool // taking a token clears what the host has raised
}

// The steps of an operation: for each peer a gift, then one take, and so on.
const (
	tokenTakeFree = ranks - 1
	tokenCopy     = tokenTakeFree + 1
	tokenGiveFull = tokenCopy + ranks - 1
	tokenTakeFull = tokenGiveFull + ranks - 1
	tokenRead     = tokenTakeFull + 1
)

func tokened(f tokenFaults, deaths bool) *system[tokenState] {
	give := func(s *tokenState, kind, r, p int) {
		if s.tokens[kind][r][p] && !s.told[r] && !s.told[p] {
			s.wrong = fmt.Sprintf("rank %d gives rank %d a token twice", r, p)
		}
		s.tokens[kind][r][p] = true
	}
	take := func(s *tokenState, kind, r int, waits bool) bool {
		for p := range ranks {
			if p != r && waits && !s.tokens[kind][p][r] && !s.raised[r] {
				return false
			}
		}
		for p := range ranks {
			s.tokens[kind][p][r] = s.tokens[kind][p][r] && f.keep
		}
		s.raised[r] = s.raised[r] && !f.lowers
		return true
	}
	put := func(s *tokenState, r, p int) {
		if s.memory[p][r] != 0 && !s.told[r] && !s.told[p] {
			s.wrong = fmt.Sprintf("rank %d copies to rank %d, which has yet to read", r, p)
		}
		s.memory[p][r] = s.op[r] + 1
	}
	advance := func(s tokenState, r int) (tokenState, bool) {
		i := int(s.at[r])
		s.at[r]++
		peer := (r + 1 + i%(ranks-1)) % ranks
		copies, after := i < tokenGiveFull, i >= tokenGiveFull && i < tokenTakeFull
		switch {
		case i < tokenTakeFree:
			give(&s, 0, r, peer)
		case i == tokenTakeFree:
			return s, take(&s, 0, r, !f.noFree)
		case copies && !f.early || after && f.early:
			put(&s, r, peer)
		case i < tokenTakeFull:
			give(&s, 1, r, peer)
		case i == tokenTakeFull:
			return s, take(&s, 1, r, !f.noFull)
		default:
			for p := range ranks {
				if p != r && s.memory[r][p] != s.op[r]+1 && !s.told[r] && !s.told[p] {
					s.wrong = fmt.Sprintf("rank %d reads what rank %d has not copied", r, p)
				}
				s.memory[r][p] = 0
			}
			s.at[r] = 0
			s.op[r]++
		}
		return s, true
	}
	return &system[tokenState]{
		next: func(s tokenState, add adder[tokenState]) {
			if deaths && !s.dead {
				to := s
				to.dead = true
				add(to, "rank 0 dies")
			}
			for r := range ranks {
				if s.dead && r > 0 && !s.told[r] {
					to := s
					to.told[r], to.raised[r] = true, true
					add(to, "rank %d raises its tokens", r)
				}
				if s.op[r] == epochs || s.dead && r == 0 {
					continue
				}
				if to, ok := advance(s, r); ok {
					add(to, "rank %d does step %d of operation %d", r, s.at[r], s.op[r])
				}
			}
		},
		safe: func(s tokenState) string { return s.wrong },
		done: func(s tokenState) bool {
			for r := range ranks {
				if s.op[r] < epochs && !(s.dead && r == 0) {
					return false
				}
			}
			return true
		}}
}

func TestToken(t *testing.T) {
	holds(t, tokened(tokenFaults{}, false), map[string]*system[tokenState]{
		"no wait for free: a token twice":        tokened(tokenFaults{noFree: true}, false),
		"no wait for full: has not copied":       tokened(tokenFaults{noFull: true}, false),
		"full before the copies: has not copied": tokened(tokenFaults{early: true}, false),
		"a token is kept: gives rank":            tokened(tokenFaults{keep: true}, false),
	})
	holds(t, tokened(tokenFaults{}, true), map[string]*system[tokenState]{
		"what the host raises is taken: nothing can happen": tokened(tokenFaults{lowers: true}, true),
	})
}
