package ib

import "github.com/goccl/goccl/internal/driver/verbs"

// request is one work request of a Peer.
type request struct {
	work verbs.Work
	done func(error) // gets the result, if not nil
}

// queue holds a Peer's requests: those in the adapter's send queue, and behind them those that wait for room there. The
// adapter completes requests in the order in which they were posted. The Peer's lock guards it.
type queue struct {
	depth int // room in the adapter
	limit int // room in memory

	posted, waiting ring
}

// room reports whether n more requests may wait.
func (q *queue) room(n int) bool { return q.waiting.len()+n <= q.limit }

// add appends a request behind the others.
func (q *queue) add(r *request) { q.waiting.push(r) }

// post moves the next waiting request to the posted ones and returns it; nil if there is none, or no room.
func (q *queue) post() *request {
	if q.posted.len() >= q.depth || q.waiting.len() == 0 {
		return nil
	}
	r := q.waiting.pop()
	return q.posted.push(&r)
}

// ring is a queue in a slice whose length is a power of two.
type ring struct {
	slots      []request
	head, tail uint // counts; the slot is the count modulo the length
}

func (r *ring) len() int { return int(r.tail - r.head) }

func (r *ring) push(v *request) *request {
	if r.len() == len(r.slots) {
		grown := make([]request, max(16, 2*len(r.slots)))
		n := uint(0)
		for ; r.head != r.tail; r.head++ {
			grown[n] = *r.at(r.head)
			n++
		}
		r.slots, r.head, r.tail = grown, 0, n
	}
	slot := r.at(r.tail)
	*slot = *v
	r.tail++
	return slot
}

func (r *ring) pop() request {
	slot := r.at(r.head)
	v := *slot
	*slot = request{}
	r.head++
	return v
}

func (r *ring) at(i uint) *request { return &r.slots[i&uint(len(r.slots)-1)] }
