package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
)

// Windows holds the user's windows of one communicator: memory that every rank registers, each rank its own part, and
// that all ranks map.
//
//  1. Each rank numbers its windows: all ranks register the same windows, of the same sizes, in the same order.
//  2. Register does not wait for peers, because one thread may call it for several ranks. A goroutine runs the exchange
//     (see the package comment), whose records are messages of the bootstrap.
//  3. The first use of a window waits for the exchange, with a bound (Window.Await).
//
// The first window starts one goroutine per peer, which receives. There is no cost unless a window is registered.
// Messages that arrive earlier wait in the bootstrap. Parts are unmapped by the window's Close or by Windows.Close,
// never earlier, because this rank's work may still write to a part that a peer has closed.
type Windows struct {
	*mailbox
	dev    device.Device
	limit  time.Duration     // of Await
	shape  exchange          // what the options request
	demand func(n int) error // Pieces: a peer has begun window n; nil: nothing is to be done

	mu        sync.Mutex // guards the fields below, and windows
	listening bool
	halted    bool   // no more goroutines start
	next      int    // number of this rank's next window
	left      []bool // Pieces, by rank: it registers no more
	byNumber  map[int]*Window
	open      []*Window // this rank's windows that overlap none before them, by address
}

// NewWindows returns no windows yet. Its bootstrap messages carry tag, which nothing else may use. limit bounds Await.
func NewWindows(b bootstrap.Bootstrap, tag int, dev device.Device, limit time.Duration, options ...Option) *Windows {
	g := &Windows{mailbox: newMailbox(b, tag, "window"), dev: dev, limit: limit, byNumber: map[int]*Window{}}
	g.shape = exchange{boot: b, dev: dev, rank: g.rank, size: g.size, uniform: true, disjoint: true}
	for _, o := range options {
		o(&g.shape)
	}
	return g
}

// Register makes the size bytes at p this rank's part of the next window. A part that overlaps another of this rank's
// makes its window unusable, since a buffer could then be in either, unless the windows are Free. It is no error,
// because a program for NCCL may do so.
func (g *Windows) Register(p device.Ptr, size int64) (*Window, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.halted || g.ctx.Err() != nil {
		return nil, fault.ErrAborted
	}
	g.listen()
	w := g.known(g.next)
	g.next++
	w.base, w.bytes = p, size
	at, _ := slices.BinarySearchFunc(g.open, p, byBase)
	var overlap error
	for _, i := range []int{at - 1, at} {
		if g.shape.disjoint && i >= 0 && i < len(g.open) && p < g.open[i].end() && g.open[i].base < p.Add(size) {
			o := g.open[i]
			overlap = fmt.Errorf("%d bytes at %#x overlap window %d, %d bytes at %#x: register one window for both",
				size, p, o.number, o.bytes, o.base)
		}
	}
	if overlap == nil && g.shape.disjoint {
		g.open = slices.Insert(g.open, at, w)
	}
	own := offer(g.dev, p, size, overlap) // now, because the caller may close the window and free the memory at once
	g.running.Go(func() { w.exchange(own) })
	return w, nil
}

func byBase(w *Window, p device.Ptr) int { return cmp.Compare(w.base, p) }

// known returns the window with a number, or nil if it is over. The caller holds mu.
func (g *Windows) known(number int) *Window {
	w := g.byNumber[number]
	if w == nil && number >= g.next {
		w = newWindow(g, number)
		g.byNumber[number] = w
		for p, left := range g.left {
			if left {
				w.miss(p)
			}
		}
	}
	return w
}

// Find returns this rank's window that holds n bytes at p, or nil. Free windows are not found.
func (g *Windows) Find(p device.Ptr, n int64) *Window {
	g.mu.Lock()
	defer g.mu.Unlock()
	i, found := slices.BinarySearchFunc(g.open, p, byBase)
	if !found {
		i--
	}
	if i < 0 || g.open[i].end() < p.Add(n) {
		return nil
	}
	return g.open[i]
}

// forget removes w when all ranks have closed it. The caller holds mu.
func (g *Windows) forget(w *Window) {
	if w.closed && w.parts == nil && !slices.Contains(w.gone, false) {
		delete(g.byNumber, w.number)
	}
}

// Abandon ends waits and background work, without waiting for either. Abandon, Halt and Close accept a nil receiver.
func (g *Windows) Abandon() {
	if g != nil {
		g.stop()
	}
}

// Halt stops the background goroutines; the mappings stay.
func (g *Windows) Halt() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.halted = true
	g.mu.Unlock()
	g.stop()
	g.running.Wait()
}

// Close ends all windows. No work may run any more.
func (g *Windows) Close() error {
	if g == nil {
		return nil
	}
	g.Halt()
	var errs []error
	for _, w := range g.byNumber {
		errs = append(errs, w.parts.Close())
	}
	g.byNumber, g.open = nil, nil
	return errors.Join(errs...)
}

// Window is one window. Peers may announce it before this rank registers it. Windows.mu guards its fields, except those
// that are constant once decided is closed.
type Window struct {
	g       *Windows
	number  int
	base    device.Ptr // of this rank's part
	bytes   int64
	closed  bool             // by this rank
	gone    []bool           // by rank: closed there; this rank's entry is always true
	records [rounds][][]byte // by rank; nil: not received
	full    [rounds]chan struct{}

	decided chan struct{} // closed once parts and err are known; parts then changes only in Close
	parts   *Parts        // nil: the window cannot be used
	reason  error         // why parts is nil
	err     error         // reason, if it is a mistake of the caller
}

func newWindow(g *Windows, number int) *Window {
	w := &Window{g: g, number: number, gone: make([]bool, g.size), decided: make(chan struct{})}
	w.gone[g.rank] = true
	for i := range w.full {
		w.records[i], w.full[i] = make([][]byte, g.size), make(chan struct{})
	}
	return w
}

func (w *Window) end() device.Ptr { return w.base.Add(w.bytes) }

// Base is the address of this rank's part.
func (w *Window) Base() device.Ptr { return w.base }

// Parts returns the parts of all ranks. Await must have reported that the window may be used.
func (w *Window) Parts() *Parts { return w.parts }

// Reason returns why the window cannot be used, once Await has returned.
func (w *Window) Reason() error { return w.reason }

// exchange decides with all ranks whether the window can be used.
func (w *Window) exchange(own *part) {
	g := w.g
	x := g.shape
	x.gather = w.gather
	parts, err := x.run(g.ctx, own)
	if err != nil {
		slog.Debug("window is not used", "rank", g.rank, "window", w.number, "cause", err)
	}
	g.mu.Lock()
	w.reason = err
	if g.demand == nil && (errors.Is(err, fault.ErrMismatch) || errors.Is(err, fault.ErrAborted)) {
		w.err = fmt.Errorf("window %d: %w: all ranks register the same windows in the same order", w.number, err)
	}
	if !w.closed {
		w.parts, parts = parts, nil
	}
	close(w.decided)
	g.mu.Unlock()
	if err := parts.Close(); err != nil {
		slog.Debug("unmap a window", "rank", g.rank, "window", w.number, "cause", err)
	}
}

// gather is a round of the exchange.
func (w *Window) gather(ctx context.Context, round int, record []byte) ([][]byte, error) {
	w.g.send(w.number, round, record)
	w.g.mu.Lock()
	w.receive(w.g.rank, round, record)
	w.g.mu.Unlock()
	select {
	case <-w.full[round]:
		return w.records[round], nil
	case <-ctx.Done():
		return nil, fault.ErrAborted
	}
}

// receive stores a rank's record of a round. The caller holds mu.
func (w *Window) receive(r, round int, record []byte) {
	all := w.records[round]
	if all[r] != nil {
		return
	}
	all[r] = record
	if !slices.ContainsFunc(all, func(b []byte) bool { return b == nil }) {
		close(w.full[round])
	}
}

// miss enters empty records of a rank that has left. The caller holds mu.
func (w *Window) miss(r int) {
	for round := range w.records {
		w.receive(r, round, []byte{})
	}
}

// Await reports whether the window may be used. It waits for the exchange. A Free window may be closed on another rank
// already: its memory stays while it is mapped here.
func (w *Window) Await() (bool, error) {
	g := w.g
	select {
	case <-w.decided:
	default:
		ctx := g.ctx
		if g.shape.bound != nil {
			bounded, stop := g.shape.bound(ctx)
			defer stop()
			ctx = bounded
		}
		select {
		case <-w.decided:
		case <-ctx.Done():
			if cause := fault.Of(context.Cause(ctx)); cause != nil {
				return false, cause
			}
			return false, fmt.Errorf("%w while it waited for window %d", fault.ErrAborted, w.number)
		case <-time.After(g.limit):
			return false, w.late()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.size {
		if g.shape.disjoint && p != g.rank && w.gone[p] {
			return false, blame(g.shape.name(p), "%w: window %d is in use here and closed on rank %d: "+
				"close windows at the same place among the operations on every rank", fault.ErrMismatch, w.number, g.shape.name(p))
		}
	}
	return w.parts != nil, w.err
}

// late returns the timeout error of Await; it names a rank that is missing.
func (w *Window) late() error {
	g := w.g
	g.mu.Lock()
	defer g.mu.Unlock()
	for round, missing := range [rounds]string{"registered it: all ranks register the same windows in the same order",
		"reported whether it could map the other ranks' parts"} {
		if p := slices.IndexFunc(w.records[round], func(b []byte) bool { return b == nil }); p >= 0 && p != g.rank {
			p = g.shape.name(p)
			if g.demand != nil {
				return blame(p, "%w: after %v the process of rank %d has not made its memory for large messages: is it stopped?",
					bootstrap.ErrTimeout, g.limit, p)
			}
			return blame(p, "%w: after %v rank %d has not, for window %d (%d bytes at %#x here), %s",
				bootstrap.ErrTimeout, g.limit, p, w.number, w.bytes, w.base, missing)
		}
	}
	return fmt.Errorf("%w: after %v this rank still maps window %d", bootstrap.ErrTimeout, g.limit, w.number)
}

// Close ends the window on this rank. After an abort, running work may still write to the peers' parts; then
// Windows.Close unmaps them. Closing twice, or after Windows.Close, is harmless.
func (w *Window) Close() error {
	g := w.g
	g.mu.Lock()
	if w.closed || g.halted {
		g.mu.Unlock()
		return nil
	}
	w.closed = true
	g.open = slices.DeleteFunc(g.open, func(o *Window) bool { return o == w })
	g.running.Go(func() {
		select {
		case <-w.decided:
			g.send(w.number, messageClosed, nil)
		case <-g.ctx.Done():
		}
	})
	var parts *Parts
	if g.ctx.Err() == nil {
		parts, w.parts = w.parts, nil
	}
	g.forget(w)
	g.mu.Unlock()
	return parts.Close()
}
