package nvlink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/goccl/goccl/algorithm/exchange"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/transport/ipc"
	"github.com/goccl/goccl/transport/wire"
)

// Messages between ranks about a slot of the owner.
const (
	sayOffer   uint8 = iota + 1 // owner: the handle
	sayMapped                   // peer: mapped
	sayFailed                   // peer: cannot be mapped
	sayDrop                     // owner: the allocation is gone
	sayDropped                  // peer: unmapped
)

// tellAll sends a message about one of this rank's slots to all peers. A peer that cannot receive it has left, or will
// end by its own deadline.
func (g *registry) tellAll(what uint8, slot int, share *ipc.Share) {
	for p := range g.size {
		if p != g.rank {
			g.tell(p, what, slot, share)
		}
	}
}

func (g *registry) tell(peer int, what uint8, slot int, share *ipc.Share) {
	var w wire.Writer
	w.U8(what)
	w.U16(uint16(slot))
	if share != nil {
		share.Put(&w)
	}
	ctx, cancel := context.WithTimeout(g.ctx, registryWait)
	defer cancel()
	if err := g.boot.Send(ctx, peer, tags.Registry, w.Seal(registryKind, 1)); err != nil {
		slog.Debug("buffer registration: a peer cannot be told", "rank", g.rank, "peer", peer, "cause", err)
	}
}

// listen receives a peer's messages until the bootstrap is closed, the peer is gone or the registry is closed.
func (g *registry) listen(peer int) {
	for {
		b, err := g.boot.Recv(g.ctx, peer, tags.Registry)
		if errors.Is(err, bootstrap.ErrTimeout) && g.ctx.Err() == nil {
			continue
		}
		if err != nil {
			return
		}
		if err := g.hear(peer, b); err != nil {
			slog.Warn("buffer registration: a peer speaks another language; its buffers stay unregistered", "rank", g.rank, "peer", peer, "cause", err)
			return
		}
	}
}

func (g *registry) hear(peer int, b []byte) error {
	body, err := wire.Open(b, registryKind, 1)
	if err != nil {
		return err
	}
	what, slot := body.U8(), int(body.U16())
	if slot >= registrySlots {
		return fmt.Errorf("slot %d of %d", slot, registrySlots)
	}
	switch what {
	case sayOffer:
		share := ipc.GetShare(body)
		if err := body.Done(); err != nil {
			return err
		}
		g.mapPeer(peer, slot, &share)
		return nil
	case sayDrop:
		g.unmapPeer(peer, slot)
		return body.Done()
	case sayMapped, sayFailed, sayDropped:
		g.answered(peer, slot, what)
		return body.Done()
	}
	return fmt.Errorf("message %d", what)
}

// mapPeer maps a buffer of a peer. Only the peer's listener writes the peer's part of the table.
func (g *registry) mapPeer(peer, slot int, share *ipc.Share) {
	m, err := exchange.Importer.Map(g.ctx, g.dev, share)
	if err != nil {
		slog.Debug("buffer of a peer cannot be mapped", "rank", g.rank, "peer", peer, "cause", err)
		g.tell(peer, sayFailed, slot, nil)
		return
	}
	g.mu.Lock()
	g.mapped[[2]int{peer, slot}] = m
	g.mu.Unlock()
	g.entry(peer, slot, uint64(m.Ptr))
	g.tell(peer, sayMapped, slot, nil)
}

func (g *registry) unmapPeer(peer, slot int) {
	g.entry(peer, slot, 0)
	key := [2]int{peer, slot}
	g.mu.Lock()
	m := g.mapped[key]
	delete(g.mapped, key)
	g.mu.Unlock()
	if m != nil {
		if err := m.Close(); err != nil {
			slog.Debug("unmap a buffer of a peer", "rank", g.rank, "peer", peer, "cause", err)
		}
	}
	g.tell(peer, sayDropped, slot, nil)
}

// answered records a peer's answer about one of this rank's slots.
func (g *registry) answered(peer, slot int, what uint8) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.slots[slot]
	if r == nil || r.answer == 0 {
		return
	}
	r.answer--
	if what == sayMapped {
		r.mapped |= 1 << peer
	}
	if r.answer > 0 {
		return
	}
	r.end()
	if r.state == dropping {
		g.slots[slot] = nil
	}
}
