package share

import (
	"cmp"
	"errors"
	"fmt"
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
