package hosts

import "slices"

// topology says which ranks are on which host. A rail has one rank of every host: rail k has local rank k of a host or,
// on hosts with fewer ranks, local rank k modulo their number. Ranks of one rail exchange messages over the network;
// the number of rails is the number of ranks of the largest host.
type topology struct {
	rank    int
	host    []int   // by rank
	local   []int   // by rank: its position among the ranks of its host
	members [][]int // by host: its ranks in order
	rails   int
}

func newTopology(rank int, hosts []int) *topology {
	t := &topology{rank: rank, host: hosts}
	for r, h := range hosts {
		for h >= len(t.members) {
			t.members = append(t.members, nil)
		}
		t.local = append(t.local, len(t.members[h]))
		t.members[h] = append(t.members[h], r)
	}
	for _, m := range t.members {
		t.rails = max(t.rails, len(m))
	}
	return t
}

func (t *topology) size() int   { return len(t.host) }
func (t *topology) here() int   { return t.host[t.rank] }
func (t *topology) own() int    { return t.local[t.rank] }
func (t *topology) mine() []int { return t.members[t.here()] }

// onRail is the rank of host h on rail k.
func (t *topology) onRail(h, k int) int { return t.members[h][k%len(t.members[h])] }

// relay is the rank of this host that exchanges messages with rank p of another host, and p itself on this host.
func (t *topology) relay(p int) int { return t.onRail(t.here(), t.local[p]) }

// serves reports whether this rank is on rail k.
func (t *topology) serves(k int) bool { return t.onRail(t.here(), k) == t.rank }

// railMembers are the ranks of rail k by host.
func (t *topology) railMembers(k int) []int {
	list := make([]int, len(t.members))
	for h := range list {
		list[h] = t.onRail(h, k)
	}
	return list
}

// isEven reports whether all hosts have the same number of ranks.
func (t *topology) isEven() bool {
	return !slices.ContainsFunc(t.members, func(m []int) bool { return len(m) != t.rails })
}

// isContiguous reports whether the ranks of host h have consecutive numbers.
func (t *topology) isContiguous(h int) bool {
	m := t.members[h]
	return m[len(m)-1]-m[0] == len(m)-1
}

// others calls f for every other host, beginning with the next one, so that not all hosts send to the same one first.
func (t *topology) others(f func(h int)) {
	n := len(t.members)
	for k := 1; k < n; k++ {
		f((t.here() + k) % n)
	}
}

// railPeers are the ranks with which this rank shares a rail.
func (t *topology) railPeers() []int {
	var list []int
	for k := range t.rails {
		if !t.serves(k) {
			continue
		}
		for h, p := range t.railMembers(k) {
			if h != t.here() && !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	slices.Sort(list)
	return list
}
