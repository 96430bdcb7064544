package bootstrap

import "iter"

// The ranks of a job form a ring. In a complete overlay every rank is a neighbour of every other. In a sparse one the
// neighbours are at the distances 1, 2, 4, … in both directions: a rank has at most 2⌈log₂ n⌉ neighbours, and there are
// that many disjoint paths between any two ranks. Neighbours stay connected as long as the job exists, by one
// connection for the data of both.

// neighbours yields the neighbours of rank in a job of n ranks, each once.
func neighbours(rank, n int, complete bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		for d := 1; 2*d <= n; d = nextDistance(d, complete) {
			if !yield((rank+d)%n) || 2*d != n && !yield((rank-d+n)%n) {
				return
			}
		}
		// The powers of two that are more than half of the ring lead back to a shorter distance.
		for d := 1; d < n && !complete; d *= 2 {
			if back := n - d; 2*d > n && back&(back-1) != 0 && (!yield((rank+d)%n) || !yield((rank-d+n)%n)) {
				return
			}
		}
	}
}

func nextDistance(d int, complete bool) int {
	if complete {
		return d + 1
	}
	return 2 * d
}

// dials returns true if rank opens the connection with its neighbour peer: the one behind on the shorter way does, of
// opposite ranks the lower one. So each rank dials about half of its neighbours.
func dials(rank, peer, n int) bool {
	ahead := (peer - rank + n) % n
	return 2*ahead < n || 2*ahead == n && rank < peer
}

// successors returns the members of a group to which rank sends in collectives over relays.
func successors(rank int, members []int) (list []int) {
	for d := 1; d < len(members); d *= 2 {
		list = append(list, members[(rank+d)%len(members)])
	}
	return list
}

// Everyone returns the ranks 0 to n-1.
func Everyone(n int) []int {
	all := make([]int, n)
	for r := range all {
		all[r] = r
	}
	return all
}
