package sockets

import (
	"math/bits"
	"sync"
)

// Tally counts events by kind and decides which are logged: the first eight of a kind and then each power of two, so
// that a flood cannot fill a disk.
type Tally struct {
	mu    sync.Mutex
	count map[string]int
}

// Count counts one event. It returns the number of events of this kind so far, and whether to log this one.
func (t *Tally) Count(kind string) (times int, report bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil {
		t.count = map[string]int{}
	}
	t.count[kind]++
	n := t.count[kind]
	return n, n <= 8 || bits.OnesCount(uint(n)) == 1
}
