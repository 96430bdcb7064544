// Package sets joins numbers that belong together (union-find). It is pure; a Sets is for one goroutine at a time.
package sets

// Sets divides the numbers from 0 on, by number: its parent, a smaller number of the set, or itself.
type Sets []int32

// New returns n sets of one number.
func New(n int) Sets {
	s := make(Sets, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

// Of returns the number that represents the set of x: the least.
func (s Sets) Of(x int) int {
	for int(s[x]) != x {
		s[x] = s[s[x]]
		x = int(s[x])
	}
	return x
}

// Join makes the sets of a and b one.
func (s Sets) Join(a, b int) {
	a, b = s.Of(a), s.Of(b)
	s[max(a, b)] = int32(min(a, b))
}
