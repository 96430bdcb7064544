package agreement

import (
	"math/bits"
	"slices"
)

// Set is a set of ranks, as a bit mask.
type Set []byte

// NewSet returns the set of these ranks, for a job of size ranks.
func NewSet(size int, ranks ...int) Set {
	s := make(Set, (size+7)/8)
	for _, r := range ranks {
		s.Add(r)
	}
	return s
}

// Add adds rank r.
func (s Set) Add(r int) { s[r/8] |= 1 << (r % 8) }

// Has reports whether rank r is in s.
func (s Set) Has(r int) bool { return s[r/8]&(1<<(r%8)) != 0 }

// Len returns the number of ranks in s.
func (s Set) Len() (n int) {
	for _, b := range s {
		n += bits.OnesCount8(b)
	}
	return n
}

// Equal reports whether s and t have the same ranks.
func (s Set) Equal(t Set) bool { return slices.Equal(s, t) }

// join adds all ranks of t and reports whether s has grown.
func (s Set) join(t Set) (grown bool) {
	for i, b := range t {
		grown = grown || b&^s[i] != 0
		s[i] |= b
	}
	return grown
}
