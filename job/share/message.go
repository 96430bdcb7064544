package share

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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

// mailbox exchanges messages of a tag, about windows or buffers, until the bootstrap is closed or stop is called.
type mailbox struct {
	boot       bootstrap.Bootstrap
	tag        int
	about      string // "window"
	rank, size int
	ctx        context.Context
	stop       context.CancelFunc
	running    sync.WaitGroup
}

func newMailbox(b bootstrap.Bootstrap, tag int, about string) *mailbox {
	m := &mailbox{boot: b, tag: tag, about: about, rank: b.Rank(), size: b.WorldSize()}
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// send sends a message to a peer, or to all if to is -1. A peer that cannot receive it has left, or will end by its own
// deadline.
func (m *mailbox) send(number, to int, message []byte) {
	for p := range m.size {
		if p == m.rank || to >= 0 && p != to {
			continue
		}
		ctx, cancel := context.WithTimeout(m.ctx, sendLimit)
		if err := m.boot.Send(ctx, p, m.tag, message); err != nil {
			slog.Debug("a message about a "+m.about+" cannot be sent", "rank", m.rank, "peer", p, m.about, number, "cause", err)
		}
		cancel()
	}
}

// receive hands the peers' messages to handle, and calls lost, if not nil, where nothing more comes from a peer.
func (m *mailbox) receive(handle func(peer int, message []byte) error, lost func(peer int, err error)) {
	bootstrap.Serve(m.ctx, &m.running, m.boot, m.tag, func(peer int, message []byte) error {
		err := handle(peer, message)
		if err != nil {
			slog.Warn("a peer's message about a "+m.about+" is malformed; later ones are ignored", "rank", m.rank, "peer",
				peer, "cause", err)
		}
		return err
	}, lost)
}

// send sends a message about a window to all peers.
func (g *Windows) send(number, what int, record []byte) {
	var w wire.Writer
	w.U8(uint8(what))
	w.U32(uint32(number))
	w.Bytes(record)
	g.mailbox.send(number, -1, w.Seal(messageKind, messageVersion))
}

// listen starts to receive messages, once. The caller holds mu.
func (g *Windows) listen() {
	if !g.listening {
		g.listening = true
		g.receive(g.handle, g.lost)
	}
}

func (g *Windows) handle(peer int, message []byte) error {
	body := wire.Open(message, messageKind, messageVersion)
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
