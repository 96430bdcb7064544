package ib

import (
	"testing"

	"pgregory.net/rapid"
)

// TestQueueKeepsOrder compares the queue with two slices.
func TestQueueKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := queue{depth: rapid.IntRange(1, 40).Draw(t, "depth"), limit: rapid.IntRange(1, 40).Draw(t, "limit")}
		var waiting, posted []uint64
		next := uint64(0)
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				if q.room(1) != (len(waiting) < q.limit) {
					t.Fatalf("room for one: %v with %d of %d waiting", q.room(1), len(waiting), q.limit)
				}
				if q.room(1) {
					r := &request{}
					r.work.ID = next
					q.add(r)
					waiting = append(waiting, next)
					next++
				}
			case 1:
				r := q.post()
				if (r != nil) != (len(waiting) > 0 && len(posted) < q.depth) {
					t.Fatalf("posted %v with %d waiting and %d of %d posted", r, len(waiting), len(posted), q.depth)
				}
				if r != nil {
					if r.work.ID != waiting[0] {
						t.Fatalf("posted %d, want %d", r.work.ID, waiting[0])
					}
					posted, waiting = append(posted, waiting[0]), waiting[1:]
				}
			case 2:
				if len(posted) > 0 {
					if r := q.posted.pop(); r.work.ID != posted[0] {
						t.Fatalf("completed %d, want %d", r.work.ID, posted[0])
					}
					posted = posted[1:]
				}
			}
			if q.posted.len() != len(posted) || q.waiting.len() != len(waiting) {
				t.Fatalf("%d posted, %d waiting", q.posted.len(), q.waiting.len())
			}
		}
	})
}
