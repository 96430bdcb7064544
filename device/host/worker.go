package host

import (
	"slices"
	"sync"
	"time"
)

// workers run queues. A goroutine that has run a queue waits briefly for another before it ends: its stack has grown to
// the size that kernels need, and growing a new stack costs several times a launch. An idle process has no workers left
// after at most two linger intervals.
var workers struct {
	sync.Mutex
	idle     []*worker // the most recently used one is last
	sweeping bool      // a sweep is pending
}

// linger is the time between sweeps; the second sweep that finds a worker idle ends it.
const linger = 10 * time.Millisecond

type worker struct {
	next  chan *queue // nil ends the worker
	swept bool        // a sweep has found it idle
}

// start runs q on an idle worker or a new one.
func start(q *queue) {
	workers.Lock()
	n := len(workers.idle)
	if n == 0 {
		workers.Unlock()
		w := &worker{next: make(chan *queue, 1)}
		go w.loop(q)
		return
	}
	w := workers.idle[n-1]
	workers.idle[n-1] = nil
	workers.idle = workers.idle[:n-1]
	workers.Unlock()
	w.next <- q
}

func (w *worker) loop(q *queue) {
	for q != nil {
		q.run()
		w.rest()
		q = <-w.next
	}
}

// rest adds w to the idle workers.
func (w *worker) rest() {
	w.swept = false
	workers.Lock()
	workers.idle = append(workers.idle, w)
	due := !workers.sweeping
	workers.sweeping = true
	workers.Unlock()
	if due {
		time.AfterFunc(linger, sweep)
	}
}

// sweep ends the workers that were already idle at the last sweep. While some are idle it runs again.
func sweep() {
	workers.Lock()
	defer workers.Unlock()
	workers.idle = slices.DeleteFunc(workers.idle, func(w *worker) bool {
		if w.swept {
			w.next <- nil // buffered, and w leaves the list, so there is no other sender
			return true
		}
		w.swept = true
		return false
	})
	workers.sweeping = len(workers.idle) > 0
	if workers.sweeping {
		time.AfterFunc(linger, sweep)
	}
}
