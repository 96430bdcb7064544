package host

import (
	"sync"
	"time"
)

// workers run queues. A goroutine that has run a queue waits a moment for another before it ends: its stack has grown to what kernels need, and
// growing one costs several times a launch. After linger at most twice over, an idle process has none left.
var workers struct {
	sync.Mutex
	idle     []*worker // the last one is the one that ran last
	sweeping bool      // a sweep is due
}

// linger is the time between sweeps; a worker is ended by the second sweep that finds it idle.
const linger = 10 * time.Millisecond

type worker struct {
	next  chan *queue // nil ends the worker
	swept bool        // a sweep has seen it idle
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

// rest puts w among the idle.
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

// sweep ends who was idle at the last sweep already and, while anybody is idle, comes again.
func sweep() {
	workers.Lock()
	defer workers.Unlock()
	rest := workers.idle[:0]
	for _, w := range workers.idle {
		if w.swept {
			w.next <- nil // buffered, and nobody else can send: w has left the list
			continue
		}
		w.swept = true
		rest = append(rest, w)
	}
	clear(workers.idle[len(rest):])
	workers.idle = rest
	workers.sweeping = len(rest) > 0
	if workers.sweeping {
		time.AfterFunc(linger, sweep)
	}
}
