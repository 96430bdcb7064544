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

// symmetric is the users' windows: memory that every rank registers, each its own part, and that all ranks map, so that a rank's copy engines write straight
// into its peers' parts (copy_engine.go).
//
//  1. A window has a number, counted by each rank: all register the same windows in the same order.
//  2. RegisterWindow waits for nobody, because one thread may call it for several ranks. In the background the part is offered to the peers, who map it.
//  3. A rank that has an offer of every peer tells all of them one word: that it has mapped all, or that it has not.
//  4. A window is usable when every rank's word is good. All ranks hear the same words, so all are of one mind, and go the same way.
//  5. The first operation in a window waits for the words, boundedly.
//
// A goroutine for each offer and one for each peer, who listens and maps, start with the first window, and the side stream is made; who registers none pays
// for nothing. What peers say meanwhile waits in the bootstrap. What is mapped is unmapped by the window's Close, or by close; never before, because work of
// this rank may still write to it when a peer has closed its part.
type symmetric struct {
	dev        *cuda.Device
	boot       bootstrap.Bootstrap
	copies     copyMode // not copyNever
	rank, size int
	limit      time.Duration // of the wait in 5.
	mapShare   func(context.Context, *ipc.Share) (*ipc.Mapping, error)

	mu       sync.Mutex // guards what follows, and windows
	started  bool
	side     *cuda.Side // for own slices; fixed once a window is open, and whoever has found one may read it
	halted   bool       // no goroutine starts any more
	next     int        // the number of this rank's next window
	byNumber map[int]*window
	open     []*window // this rank's that are of use to it, by address; they do not overlap

	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

// window is one window. Peers may know of it before this rank does.
type window struct {
	number  int
	base    device.Ptr // of this rank's part
	bytes   int64
	closed  bool          // by this rank
	useless bool          // to all: it overlaps another of this rank's
	offered chan struct{} // closed when all peers were told of this rank's part
	told    bool          // the same
	revoke  func()        // ends the offer
	parts   [maxRanks]windowPart

	decided chan struct{} // closed once usable and err are known; they, and the mappings, stay as they are until Close
	usable  bool
	err     error
}

// windowPart is a rank's part.
type windowPart struct {
	heard   bool // its offer
	bytes   int64
	mapping *ipc.Mapping // nil: it cannot be mapped; of the own part always
	word    uint8        // sayAll, sayNotAll, or 0: not yet
	closed  bool
}

const defaultWindowWait = 10 * time.Second

// newSymmetric is for ranks of which none does without copy engines.
func newSymmetric(dev *cuda.Device, boot bootstrap.Bootstrap, copies copyMode, limit time.Duration) *symmetric {
	g := &symmetric{dev: dev, boot: boot, copies: copies, rank: boot.Rank(), size: boot.WorldSize(), limit: limit, byNumber: map[int]*window{},
		mapShare: func(ctx context.Context, s *ipc.Share) (*ipc.Mapping, error) {
			return exchange.Importer.Map(ctx, dev, s)
		}}
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

// waitLimit is how long an operation waits for its peers' windows: as long as calls wait for other ranks, and no longer than operations do.
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

// nothing is the window of an engine that makes no use of it.
type nothing struct{}

func (nothing) Close() error { return nil }

var _ algorithm.Windower = (*Engine)(nil)

// RegisterWindow implements algorithm.Windower.
func (e *Engine) RegisterWindow(p device.Ptr, size int64) (io.Closer, error) {
	if e.symmetric == nil {
		return nothing{}, nil
	}
	return e.symmetric.register(p, size)
}

// ownWindow is a window as the engine's user holds it.
type ownWindow struct {
	e *symmetric
	w *window
}

// Close ends the window on this rank.
func (o ownWindow) Close() error { return o.e.closeWindow(o.w) }

// register gives a part its number. One that overlaps another of this rank's is useless, since which window a buffer lies in would be open; peers hear that
// the window is not to be used. It is no error, because a program for NCCL may do so.
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

// known is the window of a number; nil when it is over. For holders of mu.
func (g *symmetric) known(number int) *window {
	w := g.byNumber[number]
	if w == nil && number >= g.next {
		w = &window{number: number, decided: make(chan struct{})}
		g.byNumber[number] = w
	}
	return w
}

// find is this rank's window that holds n bytes at p, or nil.
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

// await says whether a window may be used, once all ranks' words are there.
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

// late says who is missing.
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

// settle looks what follows from what has come in, for holders of mu. word is to be told to all peers, unless it is 0.
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

// endOffer is for holders of mu: nobody has to fetch the part's descriptor any more.
func (w *window) endOffer() {
	if w.revoke != nil {
		w.revoke()
		w.revoke = nil
	}
}

// closeWindow ends a window on this rank. After an abort work may still be under way that writes to the peers' parts: then close unmaps them.
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

// forget is for holders of mu.
func (g *symmetric) forget(w *window) {
	for p := range g.size {
		if !w.closed || p != g.rank && !w.parts[p].closed || w.parts[p].mapping != nil {
			return
		}
	}
	delete(g.byNumber, w.number)
}

// takeMappings is for holders of mu.
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

// abandon ends waits and what runs in the background, and waits for neither. It is nil-safe, as halt and close are.
func (g *symmetric) abandon() {
	if g != nil {
		g.stop()
	}
}

// halt ends what runs in the background; what is mapped stays.
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

// close ends all windows once no work is under way.
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
