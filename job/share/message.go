package share

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport/wire"
)

const (
	messageKind    = 0x4e // 'N'
	messageVersion = 2
	maxRecord      = 4 << 10
	sendLimit      = 5 * time.Second

	// messageClosed announces that a rank has closed a window; the other messages carry a record of a round.
	messageClosed = rounds
)

// send sends a message about a window to all peers. A peer that cannot receive it has left, or will end by its own
// deadline.
func (g *Windows) send(number, what int, record []byte) {
	var w wire.Writer
	w.U8(uint8(what))
	w.U32(uint32(number))
	w.Bytes(record)
	message := w.Seal(messageKind, messageVersion)
	for p := range g.size {
		if p == g.rank {
			continue
		}
		ctx, cancel := context.WithTimeout(g.ctx, sendLimit)
		if err := g.boot.Send(ctx, p, g.tag, message); err != nil {
			slog.Debug("a message about a window cannot be sent", "rank", g.rank, "peer", p, "window", number, "cause", err)
		}
		cancel()
	}
}

// listen starts to receive messages, once, until the bootstrap is closed or the windows are. The caller holds mu.
func (g *Windows) listen() {
	if g.listening {
		return
	}
	g.listening = true
	bootstrap.Serve(g.ctx, &g.tasks, g.boot, g.tag, func(peer int, message []byte) error {
		err := g.handle(peer, message)
		if err != nil {
			slog.Warn("a peer's message about windows is malformed; later ones are ignored", "rank", g.rank, "peer",
				peer, "cause", err)
		}
		return err
	}, g.lost)
}

func (g *Windows) handle(peer int, message []byte) error {
	body, err := wire.Open(message, messageKind, messageVersion)
	if err != nil {
		return err
	}
	what, number, record := int(body.U8()), int(body.U32()), body.Bytes(maxRecord)
	if err := body.Done(); err != nil {
		return err
	}
	switch {
	case what > messageClosed || what != messageClosed && len(record) == 0:
		return fmt.Errorf("message %d of %d bytes", what, len(record))
	case g.demand != nil:
		if err := g.demand(number); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.known(number)
	switch {
	case w == nil: // the window is over
	case what == messageClosed:
		w.gone[peer] = true
		g.forget(w)
	default:
		w.receive(peer, what, record)
	}
	return nil
}

// lost notes that nothing more comes from a peer.
func (g *Windows) lost(peer int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left == nil || !errors.Is(err, bootstrap.ErrClosed) || g.ctx.Err() != nil {
		return
	}
	g.left[peer] = true
	for _, w := range g.byNumber {
		w.miss(peer)
	}
}
