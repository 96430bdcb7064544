package moe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/wait"
)

// hostEngine runs the operations on the host device, each on one goroutine of its stream. It sends all before it
// receives, so that no rank waits for one that waits for it.
//
// Memory order: flags, counts and `ended` are sequentially consistent atomics, written after the data that they
// announce and read before it.
type hostEngine struct {
	b      *Buffer
	policy *wait.Policy
	order  host.Order

	running sync.Mutex // held while an operation runs; guards the fields below
	numbers numbers
	owed    bool      // the latest dispatch, of the layout ZeroCopy, has not told its end: callers use its rows
	sums    []float32 // of one row
	mask    word
	experts []int32 // replicas of the mask
}

// task is one operation while it runs.
type task struct {
	*hostEngine
	op    string
	seq   uint64
	limit wait.Limit
}

// launch puts an operation on a stream.
func (e *hostEngine) launch(op string, seq uint64, stream device.Stream, f func(*task) error) error {
	s, ok := stream.(*host.Stream)
	if !ok {
		return e.b.error(op, seq, -1, fmt.Errorf("%w: the stream is none of the host device",
			collective.ErrInvalidArgument))
	}
	if err := e.order.Enter(s); err != nil {
		return err
	}
	return s.Launch(op, 1, func(*host.Block) (err error) {
		t := &task{e, op, seq, wait.Limit{Deadline: wait.After(e.b.cfg.OpTimeout), Abort: &e.b.aborted}}
		defer func() { // a panic, as of a buffer that is shorter than its shape, must not leave the peers waiting
			if p := recover(); p != nil {
				err = e.b.fail(t.error(-1, fmt.Errorf("%w: %w", collective.ErrAborted,
					&host.PanicError{Value: p, Stack: debug.Stack()})))
			}
		}()
		e.running.Lock()
		defer e.running.Unlock()
		if e.b.cause.Err() != nil {
			return e.b.ended(op, seq)
		}
		if err := f(t); err != nil {
			return e.b.fail(err)
		}
		return nil
	})
}

func (t *task) error(peer int, err error) error { return t.b.error(t.op, t.seq, peer, err) }

// word is an atomic word of a rank's arena.
func (e *hostEngine) word(rank int, offset int64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(device.Bytes(e.b.memory.Ptr[rank].Add(offset), 4))))
}

func (e *hostEngine) door(rank int) *wait.Cell {
	return wait.At(unsafe.Pointer(unsafe.SliceData(device.Bytes(e.b.memory.Ptr[rank].Add(offDoor), wait.CellSize))))
}

// await waits until ready, which peer makes true.
func (t *task) await(peer int, what string, ready func() bool) error {
	err := wait.Until(t.door(t.b.rank), func() bool { return ready() || t.exit(peer) != 0 }, t.limit, t.policy)
	switch {
	case ready():
		return nil
	case errors.Is(err, wait.ErrTimeout):
		return t.error(peer, fmt.Errorf("%w: after %v still waiting for %s of rank %d", collective.ErrTimeout,
			t.b.cfg.OpTimeout, what, peer))
	case t.b.cause.Err() != nil:
		return t.b.ended(t.op, t.seq)
	case err != nil:
		return t.error(peer, err)
	}
	blamed, cause := t.exit(peer).Told(t.b.rank, peer, "")
	return t.error(blamed, fmt.Errorf("%w, while this rank waits for %s", cause, what))
}

// begin starts an operation that moves rows: it waits until the peers' earlier ones have ended, and returns the number.
func (t *task) begin(kind int, h *Handle) (uint32, error) {
	if at[word](h.Memory, offMask, 1)[0] != t.mask {
		return 0, t.error(-1, errOtherMask)
	}
	n := t.next(kind)
	if kind == kindDispatch && t.owed {
		t.tell(t.b.arena.ended(kind, t.b.rank), n-1)
		t.owed = false
	}
	return n, t.awaitPeers(t.b.arena.ended(kind, 0), n-1, "the end of the operation before")
}

// awaitPeers waits until a word of all peers is n or later. first is the word of rank 0.
func (t *task) awaitPeers(first int64, n uint32, what string) error {
	for p := range t.peers() {
		w := t.word(t.b.rank, first+int64(p)*64)
		if err := t.await(p, what, func() bool { return int32(w.Load()-n) >= 0 }); err != nil {
			return err
		}
	}
	return nil
}

// tell publishes a word of this rank to all ranks.
func (t *task) tell(at int64, n uint32) {
	for p := range t.peers() {
		t.word(p, at).Store(settled(n))
		t.door(p).Wake()
	}
}

// next is the number of an operation that starts.
func (e *hostEngine) next(kind int) uint32 {
	n := e.numbers[kind] + 1
	e.numbers[kind] = settled(n)
	return n
}

// end publishes to all ranks that this one has ended an operation.
func (t *task) end(kind int, n uint32) { t.tell(t.b.arena.ended(kind, t.b.rank), n) }

func (e *hostEngine) exit(rank int) fault.Exit {
	if rank >= e.b.size { // an error of the caller's blames it
		return 0
	}
	return fault.Exit(e.word(rank, offLeft).Load())
}

// err implements engine: failures are recorded when they happen.
func (e *hostEngine) err() error { return nil }

func (e *hostEngine) leave(cause error) {
	e.word(e.b.rank, offLeft).CompareAndSwap(0, uint32(fault.ExitOf(cause)))
	for p := range e.peers() {
		e.door(p).Wake()
	}
}

// peers are the ranks that are not masked, from this one on.
func (e *hostEngine) peers() iter.Seq[int] {
	return func(yield func(int) bool) {
		for k := range e.b.size {
			if p := (e.b.rank + k) % e.b.size; !e.mask.has(p) && !yield(p) {
				return
			}
		}
	}
}

// expert is the expert of this shape that serves x, or -1: see Mask.
func (e *hostEngine) expert(s *Shape, x int64) int64 {
	switch {
	case x < 0 || x >= int64(s.Experts):
		return -1
	case !e.mask.has(int(x) / s.local(e.b.size)):
		return x
	case len(e.experts) == s.Experts:
		return int64(e.experts[x])
	}
	return -1
}

func (e *hostEngine) idle(ctx context.Context) error {
	_ = e.order.Wait(ctx) // it has failed if the work has
	return context.Cause(ctx)
}

func (e *hostEngine) latest() (numbers, error) { return e.numbers, nil }

func (e *hostEngine) restart(n numbers, w word, replicas []int32) error {
	e.running.Lock()
	defer e.running.Unlock()
	e.numbers, e.owed, e.mask, e.experts = n, false, w, replicas
	for p := range e.b.size {
		for kind := range kinds {
			e.word(e.b.rank, e.b.arena.ended(kind, p)).Store(n[kind])
		}
	}
	e.word(e.b.rank, offLeft).Store(0)
	e.order = host.Order{} // a stream that has failed would fail those that follow it
	return nil
}

// wait has nothing to do: close waits for the running operation, which sees the abort word.
func (e *hostEngine) wait() error { return nil }

// close waits for the running operation. Later ones find the cause before they use the arena.
func (e *hostEngine) close() error {
	e.running.Lock()
	defer e.running.Unlock()
	return nil
}
