package agreement

import (
	"math/bits"
	"slices"
)

// Set is a set of ranks, as bits.
type Set []byte

// NewSet is the set of these ranks of size.
func NewSet(size int, ranks ...int) Set {
	s := make(Set, (size+7)/8)
	for _, r := range ranks {
		s.Add(r)
	}
	return s
}

// Add puts rank r in.
func (s Set) Add(r int) { s[r/8] |= 1 << (r % 8) }

// Has reports whether rank r is in.
func (s Set) Has(r int) bool { return s[r/8]&(1<<(r%8)) != 0 }

// Len is the number of ranks in s.
func (s Set) Len() (n int) {
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}

// Equal reports whether s and t have the same ranks.
func (s Set) Equal(t Set) bool { return slices.Equal(s, t) }

// join adds all of t and reports whether something was new.
func (s Set) join(t Set) (grown bool) {
	for i, b := range t {
		grown = grown || b&^s[i] != 0
		s[i] |= b
	}
	return grown
}
