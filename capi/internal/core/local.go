package core

import (
	"strconv"
	"sync"
	"sync/atomic"
)

// local counts the ranks of each job in this process. Only the last of them waits for the peers in Destroy: one thread
// may destroy the others one after another.
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

// leave reports whether the job has no more ranks in this process.
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

// nextJob returns a job name that is unique in this process.
func nextJob() string { return "local " + strconv.FormatUint(jobs.Add(1), 10) }
