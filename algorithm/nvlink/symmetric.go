package nvlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/algorithm/exchange"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/transport/ipc"
)

// symmetric holds the user's windows: memory that every rank registers, each its own part, and that all ranks map. A
// rank's copy engines write straight into its peers' parts (copy_engine.go).
//
//  1. Each rank numbers its windows: all ranks register the same windows in the same order.
//  2. RegisterWindow does not wait for peers, because one thread may call it for several ranks. In the background the
//     part is offered to the peers, which map it.
//  3. A rank that has an offer from every peer sends one word to all of them: whether it has mapped all parts.
//  4. A window is usable if every rank's word is positive. All ranks receive the same words, so they agree on the path.
//  5. The first operation in a window waits for the words, with a bound.
//
// The first window creates the side stream and one goroutine per peer, which receives and maps; each offer gets a
// goroutine too. There is no cost unless a window is registered. Messages that arrive earlier wait in the bootstrap.
// Mappings are unmapped by the window's Close or by close, never earlier, because this rank's work may still write to a
// part that a peer has closed.
type symmetric struct {
	dev        *cuda.Device
	boot       bootstrap.Bootstrap
	copies     copyMode // not copyNever
	rank, size int
	limit      time.Duration // limit of the wait in step 5
	mapShare   func(context.Context, *ipc.Share) (*ipc.Mapping, error)

	mu       sync.Mutex // guards the fields below, and windows
	started  bool
	side     *cuda.Side // for own slices; fixed once a window is open, so readers that found one need no lock
	halted   bool       // no more goroutines start
	next     int        // number of this rank's next window
	byNumber map[int]*window
	open     []*window // this rank's usable windows, by address; they do not overlap

	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// window is one window. Peers may announce it before this rank registers it.
type window struct {
	number  int
	base    device.Ptr // of this rank's part
	bytes   int64
	closed  bool          // by this rank
	useless bool          // unusable on all ranks: it overlaps another window of this rank
	offered chan struct{} // closed when this rank's part has been sent to all peers
	told    bool          // whether offered is closed
	revoke  func()        // ends the offer
	parts   [maxRanks]windowPart

	decided chan struct{} // closed once usable and err are known; these and the mappings are then constant until Close
	usable  bool
	err     error
}

// windowPart is one rank's part.
type windowPart struct {
	heard   bool // its offer has arrived
	bytes   int64
	mapping *ipc.Mapping // nil: it cannot be mapped; always nil for this rank's own part
	word    uint8        // sayAll, sayNotAll, or 0: not received
	closed  bool
}

const defaultWindowWait = 10 * time.Second

// newSymmetric is used if no rank has disabled copy engines.
func newSymmetric(dev *cuda.Device, boot bootstrap.Bootstrap, copies copyMode, limit time.Duration) *symmetric {
	g := &symmetric{dev: dev, boot: boot, copies: copies, rank: boot.Rank(), size: boot.WorldSize(), limit: limit, byNumber: map[int]*window{},
		mapShare: func(ctx context.Context, s *ipc.Share) (*ipc.Mapping, error) {
			return exchange.Importer.Map(ctx, dev, s)
		}}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// waitLimit is how long an operation waits for its peers' windows: the limit of calls that wait for other ranks, but
// not longer than the limit of operations.
func waitLimit(cfg *Config) time.Duration {
	limit := cfg.Timeout
	if limit <= 0 {
		limit = defaultWindowWait
	}
	if cfg.OpTimeout > 0 {
		limit = min(limit, cfg.OpTimeout)
	}
	return limit
}

// RegisterWindow implements algorithm.Engine.
func (e *Engine) RegisterWindow(p device.Ptr, size int64) (io.Closer, error) {
	if e.symmetric == nil {
		return e.Plain.RegisterWindow(p, size)
	}
	return e.symmetric.register(p, size)
}

// ownWindow is the user's handle of a window.
type ownWindow struct {
	e *symmetric
	w *window
}

// Close ends the window on this rank.
func (o ownWindow) Close() error { return o.e.closeWindow(o.w) }

// register assigns a number to a part. A part that overlaps another of this rank's is unusable, since a buffer could
// then be in either window; the peers are notified. It is not an error, because a program for NCCL may do so.
func (g *symmetric) register(p device.Ptr, size int64) (io.Closer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.halted || g.ctx.Err() != nil {
		return nil, algorithm.ErrAborted
	}
	if err := g.start(); err != nil {
		return nil, err
	}
	w := g.known(g.next)
	g.next++
	at, _ := slices.BinarySearchFunc(g.open, p, byBase)
	var overlap error
	for _, i := range []int{at - 1, at} {
		if i >= 0 && i < len(g.open) && p < g.open[i].end() && g.open[i].base < p.Add(size) {
			o := g.open[i]
			overlap = fmt.Errorf("%d bytes at %#x overlap window %d, %d bytes at %#x: register one window for both", size, p, o.number, o.bytes, o.base)
		}
	}
	w.base, w.bytes, w.offered = p, size, make(chan struct{})
	own := &w.parts[g.rank]
	own.heard, own.bytes = true, size
	if w.useless = overlap != nil; w.useless {
		own.word = sayNotAll
	} else {
		g.open = slices.Insert(g.open, at, w)
	}
	g.tasks.Go(func() { g.offer(w, overlap) })
	return ownWindow{g, w}, nil
}

func byBase(w *window, p device.Ptr) int {
	if w.base < p {
		return -1
	}
	return btoi(w.base > p)
}

func (w *window) end() device.Ptr { return w.base.Add(w.bytes) }

// known returns the window with a number, or nil if it is over. The caller holds mu.
func (g *symmetric) known(number int) *window {
	w := g.byNumber[number]
	if w == nil && number >= g.next {
		w = &window{number: number, decided: make(chan struct{})}
		g.byNumber[number] = w
	}
	return w
}

// find returns this rank's window that holds n bytes at p, or nil.
func (g *symmetric) find(p device.Ptr, n int64) *window {
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

// await reports whether a window may be used. It waits for the words of all ranks.
func (g *symmetric) await(w *window) (bool, error) {
	select {
	case <-w.decided:
	default:
		t := time.NewTimer(g.limit)
		defer t.Stop()
		select {
		case <-w.decided:
		case <-g.ctx.Done():
			return false, fmt.Errorf("%w while it waited for window %d", algorithm.ErrAborted, w.number)
		case <-t.C:
			return false, g.late(w)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.size {
		if w.parts[p].closed {
			return false, g.blame(p, fmt.Errorf("%w: window %d is in use here and closed on rank %d: close windows at the same place among the operations on every rank",
				algorithm.ErrMismatch, w.number, p))
		}
	}
	return w.usable, w.err
}

func (g *symmetric) blame(peer int, err error) error {
	return &algorithm.Error{Op: "window", Rank: g.rank, Peer: peer, Err: err}
}

// late returns the timeout error of await; it names a rank that is missing.
func (g *symmetric) late(w *window) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, lacks := range []struct {
		what string
		has  func(*windowPart) bool
	}{
		{"registered it: all ranks register the same windows in the same order", func(p *windowPart) bool { return p.heard }},
		{"said whether it could map the other ranks' parts", func(p *windowPart) bool { return p.word != 0 }},
	} {
		for p := range g.size {
			if p != g.rank && !lacks.has(&w.parts[p]) {
				return g.blame(p, fmt.Errorf("%w: after %v rank %d has not, for window %d (%d bytes at %#x here), %s", algorithm.ErrTimeout, g.limit, p, w.number, w.bytes, w.base, lacks.what))
			}
		}
	}
	return g.blame(-1, fmt.Errorf("%w: after %v window %d is still not offered", algorithm.ErrTimeout, g.limit, w.number))
}

// settle updates w after a message. If word is not 0, the caller sends it to all peers. The caller holds mu.
func (g *symmetric) settle(w *window) (word uint8) {
	all, own := true, &w.parts[g.rank]
	same, mapped := true, true
	for p := range g.size {
		r := &w.parts[p]
		all = all && r.heard
		same = same && r.bytes == own.bytes
		mapped = mapped && (p == g.rank || r.mapping != nil)
	}
	if !all || !w.told {
		return 0
	}
	if own.word == 0 {
		if own.word = sayNotAll; same && mapped {
			own.word = sayAll
		}
		word = own.word
	}
	usable := true
	for p := range g.size {
		if w.parts[p].word == 0 {
			return word
		}
		usable = usable && w.parts[p].word == sayAll
	}
	select {
	case <-w.decided:
		return word
	default:
	}
	w.usable = usable
	for p := range g.size {
		if !same && w.err == nil && w.parts[p].bytes != own.bytes {
			w.err = g.blame(p, fmt.Errorf("%w: window %d has %d bytes here and %d on rank %d: all ranks register the same windows in the same order", algorithm.ErrMismatch,
				w.number, own.bytes, w.parts[p].bytes, p))
		}
	}
	w.endOffer()
	close(w.decided)
	return word
}

// endOffer revokes the offer of this rank's part: no peer needs the descriptor any more. The caller holds mu.
func (w *window) endOffer() {
	if w.revoke != nil {
		w.revoke()
		w.revoke = nil
	}
}

// closeWindow ends a window on this rank. After an abort, running work may still write to the peers' parts; then close
// unmaps them.
func (g *symmetric) closeWindow(w *window) error {
	g.mu.Lock()
	if w.closed || g.halted {
		g.mu.Unlock()
		return nil
	}
	w.closed = true
	g.open = slices.DeleteFunc(g.open, func(o *window) bool { return o == w })
	g.tasks.Go(func() {
		<-w.offered
		g.tellAll(sayClosed, w, nil)
	})
	var drop []*ipc.Mapping
	if g.ctx.Err() == nil {
		drop = w.takeMappings()
	}
	w.endOffer()
	g.forget(w)
	g.mu.Unlock()
	return closeAll(drop)
}

// forget removes w when all ranks have closed it and nothing of it is mapped. The caller holds mu.
func (g *symmetric) forget(w *window) {
	for p := range g.size {
		if !w.closed || p != g.rank && !w.parts[p].closed || w.parts[p].mapping != nil {
			return
		}
	}
	delete(g.byNumber, w.number)
}

// takeMappings removes and returns the mappings of all parts. The caller holds mu.
func (w *window) takeMappings() (all []*ipc.Mapping) {
	for p := range w.parts {
		if m := w.parts[p].mapping; m != nil {
			all = append(all, m)
			w.parts[p].mapping = nil
		}
	}
	return all
}

func closeAll(all []*ipc.Mapping) error {
	var errs []error
	for _, m := range all {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// abandon ends waits and background work, without waiting for either. abandon, halt and close accept a nil receiver.
func (g *symmetric) abandon() {
	if g != nil {
		g.stop()
	}
}

// halt stops the background goroutines; the mappings stay.
func (g *symmetric) halt() {
	if g == nil {
		return
	}
	g.mu.Lock()
	g.halted = true
	g.mu.Unlock()
	g.stop()
	g.tasks.Wait()
}

// close ends all windows. No work may run any more.
func (g *symmetric) close() error {
	if g == nil {
		return nil
	}
	g.halt()
	var drop []*ipc.Mapping
	for _, w := range g.byNumber {
		w.endOffer()
		drop = append(drop, w.takeMappings()...)
	}
	g.byNumber, g.open = nil, nil
	err := closeAll(drop)
	if g.side != nil {
		err = errors.Join(err, g.side.Close())
	}
	return err
}
