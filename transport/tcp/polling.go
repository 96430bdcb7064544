package tcp

import (
	"runtime"
	"sync/atomic"
	"time"
)

// polling lets goroutines of lanes poll for some time before they sleep: to wake a thread takes longer than a piece of
// a large put. At most a quarter of the processors poll at once. The zero value never polls.
type polling struct {
	time time.Duration
	now  atomic.Int32
}

// until calls done again and again until it returns true, which is the result, or the time is over.
func (p *polling) until(done func() bool) bool {
	if p.time == 0 {
		return false
	}
	defer p.now.Add(-1)
	if int(p.now.Add(1)) > max(1, runtime.GOMAXPROCS(0)/4) {
		return false
	}
	for end := time.Now().Add(p.time); time.Now().Before(end); runtime.Gosched() {
		for range 16 {
			if done() {
				return true
			}
		}
	}
	return false
}
