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

// listen starts the goroutines that receive, once. The caller holds mu.
func (g *Windows) listen() {
	for p := range g.size {
		if p != g.rank && !g.listening {
			g.tasks.Go(func() { g.receive(p) })
		}
	}
	g.listening = true
}

// receive handles a peer's messages until the bootstrap is closed, the peer is gone or the windows are closed.
func (g *Windows) receive(peer int) {
	for {
		b, err := g.boot.Recv(g.ctx, peer, g.tag)
		if errors.Is(err, bootstrap.ErrTimeout) && g.ctx.Err() == nil {
			continue
		}
		if err != nil {
			return
		}
		if err := g.handle(peer, b); err != nil {
			slog.Warn("a peer's message about windows is malformed; later ones are ignored", "rank", g.rank, "peer",
				peer, "cause", err)
			return
		}
	}
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
	if what > messageClosed {
		return fmt.Errorf("message %d", what)
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
