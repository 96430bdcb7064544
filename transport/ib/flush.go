package ib

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver/verbs"
)

// flusher makes arrived bytes visible in GPU memory. The adapter's writes to a GPU and its completions in host memory
// take different ways: the completion may be seen first. A read of the GPU's memory by the same adapter cannot pass the
// writes before it. The read goes through a queue pair that is connected to itself.
type flusher struct {
	on atomic.Bool // some region needs it

	mu      sync.Mutex
	regions map[*region]struct{} // one read for each device
	channel verbs.Channel
	cq      verbs.CQ
	qp      verbs.QP
	work    verbs.Work
}

// flushTimeout bounds a read of this adapter's own memory.
const flushTimeout = 10 * time.Second

// add notes a region of a GPU. The first one makes the queue pair.
func (f *flusher) add(p *Port, r *region) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.qp == 0 {
		if err := f.open(p); err != nil {
			return fmt.Errorf("ib: %s: make the queue pair that flushes GPU memory: %w", p.nic, err)
		}
	}
	if f.regions == nil {
		f.regions = map[*region]struct{}{}
	}
	f.regions[r] = struct{}{}
	f.on.Store(true)
	return nil
}

// remove forgets a region, after a read that may be under way.
func (f *flusher) remove(r *region) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.regions, r)
	f.on.Store(len(f.regions) > 0)
}

func (f *flusher) open(p *Port) (err error) {
	var qpn uint32
	if f.channel, _, err = p.context.Channel(); err != nil {
		return err
	}
	if f.cq, err = p.context.CQ(16, f.channel); err != nil {
		return err
	}
	if f.qp, qpn, _, err = p.pd.QP(f.cq, 8, 1, 0); err != nil {
		return err
	}
	if err = f.qp.Init(p.adapter.port); err != nil {
		return err
	}
	f.work = verbs.Work{Opcode: verbs.Read, Flags: verbs.Signaled, Length: 1, Local: uint64(p.scratchAddr()),
		LKey: p.scratchMR.LKey}
	self := &Peer{port: p, qpn: qpn}
	a, err := parseAddress(self.Address())
	if err != nil {
		return err
	}
	path, err := self.path(a, 0)
	if err != nil {
		return err
	}
	return f.qp.Ready(path)
}

// run returns when all writes that arrived before are visible.
func (f *flusher) run() error {
	if !f.on.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	done := map[device.ID]bool{}
	for r := range f.regions {
		if done[r.dev] {
			continue
		}
		done[r.dev] = true
		f.work.Remote, f.work.RKey = r.addr, r.mr.RKey
		if err := f.read(); err != nil {
			return err
		}
	}
	return nil
}

func (f *flusher) read() error {
	if err := f.qp.Send(&f.work); err != nil {
		return err
	}
	var wc [1]verbs.Completion
	for end := time.Now().Add(flushTimeout); ; runtime.Gosched() {
		n, err := f.cq.Poll(wc[:])
		switch {
		case err != nil:
			return err
		case n > 0 && wc[0].Status != verbs.Success:
			return fmt.Errorf("%w: %s", ErrQueuePair, verbs.StatusText(wc[0].Status))
		case n > 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%w: no completion in %v", ErrQueuePair, flushTimeout)
		}
	}
}

func (f *flusher) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on.Store(false)
	err := errors.Join(device.CloseAll(f.qp), device.CloseAll(f.cq), device.CloseAll(f.channel))
	f.qp, f.cq, f.channel = 0, 0, 0
	return err
}
