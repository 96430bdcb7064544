package synth

import "math"

// flow computes maximum flows by Dinic's algorithm. The same network serves many pairs of ends: capacities are restored
// by reset.
type flow struct {
	head  []int32 // first arc of each node, -1: none
	next  []int32
	to    []int32
	cap   []int64 // remaining
	whole []int64 // before any flow
	level []int32
	at    []int32
	queue []int32
}

const endless = math.MaxInt64 / 4

func newFlow(nodes int) *flow {
	f := &flow{head: make([]int32, nodes), level: make([]int32, nodes), at: make([]int32, nodes)}
	for i := range f.head {
		f.head[i] = -1
	}
	return f
}

// arc adds an arc and returns its index; its reverse has the next index.
func (f *flow) arc(from, to int, capacity int64) int {
	id := len(f.to)
	f.to = append(f.to, int32(to), int32(from))
	f.cap = append(f.cap, capacity, 0)
	f.whole = append(f.whole, capacity, 0)
	f.next = append(f.next, f.head[from], f.head[to])
	f.head[from], f.head[to] = int32(id), int32(id+1)
	return id
}

// cut removes all arcs from index n on.
func (f *flow) cut(n int) {
	for id := len(f.to) - 1; id >= n; id-- {
		f.head[f.to[id^1]] = f.next[id]
	}
	f.to, f.cap, f.whole, f.next = f.to[:n], f.cap[:n], f.whole[:n], f.next[:n]
}

// set changes the capacity of an arc.
func (f *flow) set(arc int, capacity int64) { f.whole[arc] = capacity }

func (f *flow) reset() { copy(f.cap, f.whole) }

// max returns the maximum flow from s to t, or limit if it is at least that. It begins with unused capacities. After a
// flow below the limit, level is -1 at exactly the nodes on t's side of a minimum cut.
func (f *flow) max(s, t int, limit int64) int64 {
	f.reset()
	total := int64(0)
	for total < limit && f.levels(s, t) {
		copy(f.at, f.head)
		for total < limit {
			pushed := f.push(int32(s), int32(t), limit-total)
			if pushed == 0 {
				break
			}
			total += pushed
		}
	}
	return total
}

func (f *flow) levels(s, t int) bool {
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[s] = 0
	f.queue = append(f.queue[:0], int32(s))
	for i := 0; i < len(f.queue); i++ {
		n := f.queue[i]
		for a := f.head[n]; a >= 0; a = f.next[a] {
			if f.cap[a] > 0 && f.level[f.to[a]] < 0 {
				f.level[f.to[a]] = f.level[n] + 1
				f.queue = append(f.queue, f.to[a])
			}
		}
	}
	return f.level[t] >= 0
}

func (f *flow) push(n, t int32, most int64) int64 {
	if n == t {
		return most
	}
	for ; f.at[n] >= 0; f.at[n] = f.next[f.at[n]] {
		a := f.at[n]
		m := f.to[a]
		if f.cap[a] == 0 || f.level[m] != f.level[n]+1 {
			continue
		}
		if pushed := f.push(m, t, min(most, f.cap[a])); pushed > 0 {
			f.cap[a] -= pushed
			f.cap[a^1] += pushed
			return pushed
		}
	}
	return 0
}
