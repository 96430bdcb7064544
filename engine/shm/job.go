package shm

import (
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/host"
)

// job is a batch of requests in a stream, with copies of everything that the caller may change after Enqueue. Jobs are
// reused, so operations allocate only while the number in flight still grows. A job that its stream skips is not
// reused.
type job struct {
	e      *Engine
	seq    uint64
	batch  []collective.Request
	counts []int64 // of all all-to-all-v requests of the batch
	run    func(*host.Block) error
	ran    bool
}

// jobs holds the free jobs.
type jobs struct {
	mu      sync.Mutex
	free    []*job
	pending atomic.Int64 // enqueued and not over; includes jobs that their streams skipped
}

func (s *jobs) take(e *Engine, seq uint64, reqs []collective.Request) *job {
	var j *job
	s.mu.Lock()
	if n := len(s.free); n > 0 {
		j, s.free = s.free[n-1], s.free[:n-1]
	}
	s.mu.Unlock()
	if j == nil {
		j = &job{e: e}
		j.run = j.execute
	}
	j.seq, j.ran = seq, false
	j.batch = append(j.batch[:0], reqs...)
	j.counts = j.counts[:0]
	for i := range j.batch {
		r := &j.batch[i]
		for _, v := range []*[]int64{&r.SendCounts, &r.SendDispls, &r.RecvCounts, &r.RecvDispls} {
			if *v != nil {
				from := len(j.counts)
				j.counts = append(j.counts, *v...) // if append moves the array, older slices keep the old copy
				*v = j.counts[from:len(j.counts):len(j.counts)]
			}
		}
	}
	return j
}

func (j *job) execute(*host.Block) error {
	j.ran = true
	err := j.e.execute(j.seq, j.batch)
	clear(j.batch)
	j.e.jobs.mu.Lock()
	j.e.jobs.free = append(j.e.jobs.free, j)
	j.e.jobs.mu.Unlock()
	j.e.jobs.pending.Add(-1)
	return err
}
