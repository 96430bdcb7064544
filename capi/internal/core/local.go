package core

import (
	"strconv"
	"sync"
	"sync/atomic"
)

// local counts the ranks that a job has in this process. Destroy waits for the peers only as the last of them: the others may be destroyed
// by the same thread, one after another.
var local = population{count: map[string]int{}}

type population struct {
	mu    sync.Mutex
	count map[string]int
}

func (p *population) enter(job string) {
	p.mu.Lock()
	p.count[job]++
	p.mu.Unlock()
}

// leave reports whether the job has no more ranks here.
func (p *population) leave(job string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[job]--
	if p.count[job] > 0 {
		return false
	}
	delete(p.count, job)
	return true
}

var jobs atomic.Uint64

// nextJob names a job that only this process knows.
func nextJob() string { return "local " + strconv.FormatUint(jobs.Add(1), 10) }
