package nvlink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/transport/ipc"
	"github.com/goccl/goccl/transport/wire"
)

const (
	windowKind = 0x4e            // 'N': a window
	windowTell = 5 * time.Second // limit for a send to a peer
)

// Messages between ranks about a window. A rank sends each peer first its part, then a word. It may send sayClosed at
// any time after the part.
const (
	sayPart   uint8 = iota + 1 // the part's size and handle
	sayNoPart                  // the size of a part that cannot be mapped
	sayAll                     // all parts are mapped here
	sayNotAll                  // some part is not mapped here
	sayClosed                  // the part may be freed from now on
)

// start creates the side stream and the goroutines. The caller holds mu.
func (g *symmetric) start() (err error) {
	if g.started {
		return nil
	}
	if g.side, err = g.dev.NewSide(); err != nil {
		return err
	}
	g.started = true
	for p := range g.size {
		if p != g.rank {
			g.tasks.Go(func() { g.listen(p) })
		}
	}
	return nil
}

// offer sends this rank's part to the peers.
func (g *symmetric) offer(w *window, useless error) {
	var share ipc.Share
	var revoke func()
	err := useless
	if err == nil {
		share, revoke, err = ipc.Offer(g.dev, w.base)
	}
	if err == nil && share.Handle.Size-share.Handle.Offset < w.bytes {
		err = fmt.Errorf("the allocation ends after %d bytes", share.Handle.Size-share.Handle.Offset)
	}
	g.mu.Lock()
	w.revoke = revoke
	if w.closed && err == nil {
		err = errors.New("it is closed")
	}
	if err != nil {
		w.endOffer()
		w.parts[g.rank].word = sayNotAll
	}
	g.mu.Unlock()
	if err == nil {
		g.tellAll(sayPart, w, &share)
	} else {
		slog.Debug("window is not shared", "rank", g.rank, "window", w.number, "cause", err)
		g.tellAll(sayNoPart, w, nil)
		g.tellAll(sayNotAll, w, nil)
	}
	close(w.offered)
	g.mu.Lock()
	w.told = true
	g.say(w)
}

// say settles a window, releases mu, which the caller holds, and sends the resulting word to the peers.
func (g *symmetric) say(w *window) {
	word := g.settle(w)
	g.mu.Unlock()
	if word != 0 {
		g.tellAll(word, w, nil)
	}
}

// tellAll sends a message about a window to all peers. A peer that cannot receive it has left, or will end by its own
// deadline.
func (g *symmetric) tellAll(what uint8, w *window, share *ipc.Share) {
	var b wire.Writer
	b.U8(what)
	b.U32(uint32(w.number))
	b.U64(uint64(w.bytes))
	if share != nil {
		share.Put(&b)
	}
	record := b.Seal(windowKind, 1)
	for p := range g.size {
		if p == g.rank {
			continue
		}
		ctx, cancel := context.WithTimeout(g.ctx, windowTell)
		if err := g.boot.Send(ctx, p, tags.Window, record); err != nil {
			slog.Debug("a peer cannot be told of a window", "rank", g.rank, "peer", p, "window", w.number, "cause", err)
		}
		cancel()
	}
}

// listen receives a peer's messages until the bootstrap is closed, the peer is gone or the windows are closed.
func (g *symmetric) listen(peer int) {
	for {
		b, err := g.boot.Recv(g.ctx, peer, tags.Window)
		if errors.Is(err, bootstrap.ErrTimeout) && g.ctx.Err() == nil {
			continue
		}
		if err != nil {
			return
		}
		if err := g.hear(peer, b); err != nil {
			slog.Warn("a peer says of a window what cannot be understood; its windows will be missed", "rank", g.rank, "peer", peer, "cause", err)
			return
		}
	}
}

func (g *symmetric) hear(peer int, b []byte) error {
	body, err := wire.Open(b, windowKind, 1)
	if err != nil {
		return err
	}
	what, number, bytes := body.U8(), int(body.U32()), int64(body.U64())
	var share ipc.Share
	if what == sayPart {
		share = ipc.GetShare(body)
	}
	if err := body.Done(); err != nil {
		return err
	}
	if what < sayPart || what > sayClosed || bytes <= 0 {
		return fmt.Errorf("message %d of %d bytes", what, bytes)
	}
	g.mu.Lock()
	w := g.known(number)
	if w == nil { // the window is over
		g.mu.Unlock()
		return nil
	}
	part := &w.parts[peer]
	switch what {
	case sayPart:
		m := g.mapPart(peer, w, &share, bytes)
		if w.closed && m != nil { // closed while mu was released
			g.mu.Unlock()
			return m.Close()
		}
		part.mapping = m
		fallthrough
	case sayNoPart:
		part.heard, part.bytes = true, bytes
	case sayAll, sayNotAll:
		part.word = what
	case sayClosed: // possibly before its word
		part.closed, part.heard, part.bytes = true, true, bytes
		if part.word == 0 {
			part.word = sayNotAll
		}
		g.forget(w)
	}
	g.say(w)
	return nil
}

// mapPart maps a peer's part; it returns nil if that fails. The caller holds mu; mapPart releases it during the call.
func (g *symmetric) mapPart(peer int, w *window, share *ipc.Share, bytes int64) *ipc.Mapping {
	if w.closed || w.useless {
		return nil
	}
	g.mu.Unlock()
	defer g.mu.Lock()
	var m *ipc.Mapping
	var err error
	if room := share.Handle.Size - share.Handle.Offset; room < bytes {
		err = fmt.Errorf("%d bytes of %d are offered", room, bytes)
	} else {
		m, err = g.mapShare(g.ctx, share)
	}
	if err != nil {
		slog.Debug("a peer's part of a window cannot be mapped", "rank", g.rank, "peer", peer, "window", w.number, "cause", err)
		return nil
	}
	return m
}
