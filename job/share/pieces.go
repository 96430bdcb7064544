package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
)

// Pieces are arenas of a communicator that are made when a rank first uses them. Piece k is window k of the protocol
// (package comment, Windows).
//
//  1. The first rank that uses a piece allocates its part and offers it to all peers.
//  2. A peer that receives the offer does the same in the background, whatever its caller does. So no rank waits for
//     another rank's call, and one thread may use the pieces of several ranks, in any order.
//  3. A rank that has left without the piece takes no part. No operation with it may follow.
type Pieces struct {
	*Windows
	sizes []int64
	own   []device.Allocation // by piece; nil while it is freed
	begun []bool              // this rank allocates the piece, or has
}

// NewPieces makes no piece yet. Its bootstrap messages carry tag, which nothing else may use. limit bounds At. All
// ranks pass the same sizes.
func NewPieces(b bootstrap.Bootstrap, tag int, dev device.Device, sizes []int64, limit time.Duration) *Pieces {
	p := &Pieces{Windows: NewWindows(b, tag, dev, limit, Free()), sizes: sizes,
		own: make([]device.Allocation, len(sizes)), begun: make([]bool, len(sizes))}
	g := p.Windows
	g.shape.uniform, g.shape.fixed, g.shape.partial = true, true, true
	g.left, g.demand = make([]bool, g.size), func(k int) error {
		if k >= len(sizes) {
			return fmt.Errorf("piece %d of %d", k, len(sizes))
		}
		p.begin(k)
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listen()
	return p
}

// begin makes this rank's part of a piece in the background, if that has not begun.
func (p *Pieces) begin(k int) *Window {
	g := p.Windows
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.known(k)
	if p.begun[k] || g.halted {
		return w
	}
	p.begun[k] = true
	g.running.Go(func() { w.exchange(p.alloc(w)) })
	return w
}

// alloc offers new memory.
func (p *Pieces) alloc(w *Window) *part {
	size := p.sizes[w.number]
	a, err := p.dev.Alloc(size)
	if err != nil {
		return offer(p.dev, 0, size, fmt.Errorf("%d bytes for large messages: %w", size, err))
	}
	p.mu.Lock()
	p.own[w.number], w.base, w.bytes = a, a.Ptr(), size
	p.mu.Unlock()
	return offer(p.dev, a.Ptr(), size, nil)
}

// At returns the addresses of piece k, by rank: 0 for a rank that had left. The first call makes the piece, and waits
// for the peers' processes.
func (p *Pieces) At(k int) ([]device.Ptr, error) {
	w := p.begin(k)
	switch ok, err := w.Await(); {
	case err != nil:
		return nil, err
	case !ok:
		return nil, w.reason
	}
	return w.parts.Ptr, nil
}

// Leave ends the making of pieces: this rank needs no more, and tells its peers so after the call. It waits for pieces
// that it has begun. All methods except At accept a nil receiver.
func (p *Pieces) Leave() {
	if p == nil {
		return
	}
	p.mu.Lock()
	for k := range p.begun {
		if !p.begun[k] {
			p.begun[k] = true
			continue
		}
		w := p.byNumber[k]
		p.mu.Unlock()
		_, _ = w.Await() // the users of the piece get its error
		p.mu.Lock()
	}
	p.mu.Unlock()
}

// Bytes returns the size of this rank's parts that were made.
func (p *Pieces) Bytes() (n int64) {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.byNumber {
		n += w.bytes
	}
	return n
}

// Suspend unmaps the pieces, and frees those whose addresses can be kept. No rank has work, and all ranks suspend.
func (p *Pieces) Suspend(ctx context.Context) error {
	if p == nil {
		return nil
	}
	err := p.Windows.Suspend(ctx)
	for k, a := range p.own {
		if a != nil && p.byNumber[k].parts.fixed() {
			p.own[k], err = nil, errors.Join(err, a.Close())
		}
	}
	return err
}

// Resume makes the pieces anew, at the same addresses. It is collective.
func (p *Pieces) Resume(ctx context.Context) (err error) {
	if p == nil {
		return nil
	}
	for k, w := range p.byNumber {
		if p.own[k] == nil && w.parts.fixed() && err == nil {
			if p.own[k], err = p.dev.Alloc(p.sizes[k]); err != nil {
				p.own[k] = nil
				continue
			}
			w.base = p.own[k].Ptr()
		}
	}
	return errors.Join(err, p.Windows.Resume(ctx))
}

// Abandon ends waits and background work, without waiting for either.
func (p *Pieces) Abandon() {
	if p != nil {
		p.Windows.Abandon()
	}
}

// Halt stops the background goroutines; the mappings stay.
func (p *Pieces) Halt() {
	if p != nil {
		p.Windows.Halt()
	}
}

// Close unmaps the pieces and frees this rank's parts. No work may run any more.
func (p *Pieces) Close() error {
	if p == nil {
		return nil
	}
	err := errors.Join(p.Windows.Close(), device.CloseAll(p.own...))
	p.own = nil
	return err
}
