package core

import (
	"strconv"
	"sync"
)

// local counts the ranks of each job in this process. Only the last of them waits for the peers in Destroy: one thread
// may destroy the others one after another.
var local = population{count: map[string]int{}}

type population struct {
	mu    sync.Mutex
	count map[string]int
	named uint64 // jobs that nextJob has named
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

// nextJob returns a job name that is unique in this process.
func nextJob() string {
	local.mu.Lock()
	defer local.mu.Unlock()
	local.named++
	return "local " + strconv.FormatUint(local.named, 10)
}
