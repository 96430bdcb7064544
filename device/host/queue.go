package host

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/device"
)

// An operation passes through a stream as follows:
//
//	1. submit    append under mu; hand the queue to a worker if no worker runs it
//	2. run       take the next under mu, execute without it
//	3. finish    under mu: count it as done, keep the first error, wake the waiters for this count
//	4. run ends  under mu when the queue is empty, so that the next submit sees it
//
// Skipped operations (the stream has failed, the device is closed) pass the same way without being executed, so counts
// and events always complete. A synchronous stream executes in submit; turn serializes its operations.

type opKind uint8

const (
	opKernel opKind = iota + 1
	opCopy
	opMemset
	opRecord
	opWaitEvent
)

// op is one operation. It is stored by value, so that a queue that has grown once allocates no more.
type op struct {
	kind     opKind
	value    byte
	blocks   int
	name     string
	kernel   func(*Block) error
	event    *Event
	dst, src device.Ptr
	n        int64
}

type queue struct {
	dev         *Device
	raw         uintptr
	synchronous bool
	one         single     // belongs to the executing goroutine
	turn        sync.Mutex // synchronous streams: held while an operation executes

	mu       sync.Mutex
	ops      []op // ops[head:] are pending
	head     int
	running  bool   // a worker is in run, or about to be
	now      string // the name of the operation that a worker executes, "" between two
	enqueued uint64
	done     uint64
	err      error // the first error, sticky
	waiters  []waiter
}

// waiter is a Synchronize; ready is closed when done reaches target.
type waiter struct {
	target uint64
	ready  chan struct{}
}

func (q *queue) submit(o op) error {
	if q.synchronous {
		return q.execNow(&o)
	}
	q.mu.Lock()
	if q.err != nil {
		err := q.err
		q.mu.Unlock()
		return fmt.Errorf("host: %s: the stream has failed: %w", o.name, err)
	}
	if q.head > len(q.ops)/2 { // as much is free as remains, so a move costs no more than the operations before it
		q.ops, q.head = slices.Delete(q.ops, 0, q.head), 0
	}
	q.ops = append(q.ops, o)
	q.enqueued++
	idle := !q.running
	q.running = true
	q.mu.Unlock()
	if idle {
		start(q)
	}
	return nil
}

func (q *queue) execNow(o *op) error {
	q.turn.Lock()
	defer q.turn.Unlock()
	q.mu.Lock()
	err := q.err
	q.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("host: %s: the stream has failed: %w", o.name, err)
		o.skip(err)
		return err
	}
	if err = q.exec(o); err != nil {
		q.mu.Lock()
		q.err = err
		q.mu.Unlock()
	}
	return err
}

func (q *queue) run() {
	var o op
	finished := false
	defer func() {
		if finished {
			return
		}
		// A kernel has called runtime.Goexit, as FailNow of package testing does. The goroutine is lost, but the stream
		// is not.
		err := fmt.Errorf("host: %s: the kernel ended its goroutine (runtime.Goexit)", o.name)
		q.mu.Lock()
		q.finish(err)
		q.mu.Unlock()
		start(q)
	}()
	q.mu.Lock()
	for q.head < len(q.ops) {
		o = q.ops[q.head]
		q.ops[q.head] = op{} // release its function and event
		q.head++
		q.now = o.name
		err := q.err
		q.mu.Unlock()
		if err != nil {
			o.skip(err)
		} else {
			err = q.exec(&o)
		}
		q.mu.Lock()
		q.finish(err)
	}
	q.running = false
	q.mu.Unlock()
	finished = true
}

// finish counts one operation as done. The caller holds mu.
func (q *queue) finish(err error) {
	q.done++
	q.now = ""
	if q.err == nil {
		q.err = err
	}
	q.waiters = slices.DeleteFunc(q.waiters, func(w waiter) bool {
		over := w.target <= q.done
		if over {
			close(w.ready)
		}
		return over
	})
}

// exec runs one operation on this goroutine.
func (q *queue) exec(o *op) error {
	d := q.dev
	if !d.begin() {
		err := fmt.Errorf("host: %s on %s: %w", o.name, d.ID(), device.ErrClosed)
		o.skip(err)
		return err
	}
	defer d.end()
	switch o.kind {
	case opKernel:
		if o.blocks == 1 {
			return q.one.launch(d, o.name, o.kernel)
		}
		return launch(d, o.name, o.blocks, o.kernel)
	case opCopy:
		return guard("copy", o.copy)
	case opMemset:
		return guard("memset", o.set)
	case opRecord:
		o.event.reach(time.Now(), nil)
	case opWaitEvent:
		return o.event.block(d)
	}
	return nil
}

// skip ends an operation without executing it.
func (o *op) skip(err error) {
	if o.kind == opRecord {
		o.event.reach(time.Time{}, err)
	}
}

func (o *op) copy() { copy(device.Bytes(o.dst, o.n), device.Bytes(o.src, o.n)) }

func (o *op) set() {
	b := device.Bytes(o.dst, o.n)
	if o.value == 0 {
		clear(b)
		return
	}
	if len(b) > 0 {
		b[0] = o.value
	}
	for n := 1; n < len(b); { // copy the bytes already set behind themselves, at most a cache's worth at a time
		n += copy(b[n:], b[:min(n, 256<<10)])
	}
}

func (q *queue) synchronize(ctx context.Context) error {
	q.mu.Lock()
	if q.synchronous || q.done >= q.enqueued {
		err := q.err
		q.mu.Unlock()
		return err
	}
	w := waiter{target: q.enqueued, ready: make(chan struct{})}
	q.waiters = append(q.waiters, w)
	q.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		q.waiters = slices.DeleteFunc(q.waiters, func(o waiter) bool { return o == w })
		return fmt.Errorf("host: synchronize stream %d of %s: %w", q.raw, q.dev.ID(), ctx.Err())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}
