package bootstrap

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/internal/openfiles"
	"github.com/goccl/goccl/internal/sockets"
)

// gate admits authenticated ranks through listeners that anybody may reach.
//
// What a stranger can cost is bounded: maxPending connections (see sockets.Lobby), each with a fixed-size read and handshakeTimeout to live. Who has
// proved the secret is dropped by nobody.
type gate struct {
	listeners []net.Listener
	secret    []byte
	greet     func() greeting
	admit     func(greeting) verdict // judges, and reserves the rank's place
	enter     func(*frameConn, greeting)
	abandon   func(greeting) // undoes admit for a rank that did not get through
	starved   func(error)    // this process has had no room to accept anybody for some time
	log       *slog.Logger

	lobby   *sockets.Lobby
	refused sockets.Tally
	closed  atomic.Bool
	wg      sync.WaitGroup
}

func (g *gate) serve() {
	g.lobby = sockets.NewLobby(maxPending)
	for _, l := range g.listeners {
		g.wg.Go(func() { g.accept(l) })
	}
}

func (g *gate) accept(l net.Listener) {
	var shortage openfiles.Shortage
	for {
		c, err := l.Accept()
		lasts := shortage.Lasts(err)
		if err != nil {
			if g.closed.Load() || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors or an aborted connection: make room and go on.
			g.refuse("accept", "", err)
			g.lobby.Evict()
			if lasts {
				g.starved(openfiles.Explain(err))
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		v := g.lobby.Enter(c)
		if v == nil {
			return
		}
		g.wg.Go(func() { g.visit(c, v) })
	}
}

func (g *gate) visit(c net.Conn, v *sockets.Guest) {
	remote := c.RemoteAddr().String()
	admitted := false
	err := checkPeer(c)
	var fc *frameConn
	var them greeting
	if err == nil {
		sockets.Tune(c, 0)
		fc, them, err = shakeAcceptor(c, g.secret, g.greet(), time.Now().Add(handshakeTimeout), v.Heard, func(gr greeting) verdict {
			if !v.Leave() {
				return verdictTimeout // it was dropped meanwhile, and cannot be told
			}
			verdict := g.admit(gr)
			admitted = verdict == verdictOK
			return verdict
		})
	}
	v.Leave()
	if err != nil {
		// A rank that comes again at once must find its place free.
		if admitted {
			g.abandon(them)
		}
		_ = c.Close()
		// Visitors that shut() dropped are no news; one that was told no is, however late.
		if !g.closed.Load() || them.version != 0 {
			g.refuseRank(remote, them, err)
		}
		return
	}
	g.enter(fc, them)
}

func (g *gate) refuseRank(remote string, them greeting, err error) {
	reason := "no greeting"
	switch {
	case errors.Is(err, ErrAuth):
		reason = "wrong secret"
	case errors.Is(err, ErrWorldSize):
		reason = "wrong world size"
		err = fmt.Errorf("%w: rank %d says %d, the job says %d", err, them.rank, them.world, g.greet().world)
	case errors.Is(err, ErrDuplicateRank):
		reason = "duplicate rank"
	case errors.Is(err, ErrAttempt):
		reason = "another attempt"
	case errors.Is(err, ErrRankRange):
		reason = "rank out of range"
	case errors.Is(err, errNotGoccl):
		reason = "garbage"
	case errors.Is(err, ErrProtocol):
		reason = "protocol"
	}
	if them.version != 0 {
		err = fmt.Errorf("rank %d (%v): %w", them.rank, them.from, err)
	}
	g.refuse(reason, remote, err)
}

func (g *gate) refuse(reason, remote string, err error) {
	if n, report := g.refused.Count(reason); report {
		g.log.Warn("bootstrap: refused a connection", "reason", reason, "remote", remote, "error", err, "times", n)
	}
}

// shut closes the listeners and drops who is not through yet. Callers that must not return before every visitor is gone wait as well.
func (g *gate) shut() {
	if g.closed.Swap(true) {
		return
	}
	for _, l := range g.listeners {
		_ = l.Close()
	}
	g.lobby.Close()
}

func (g *gate) wait() { g.wg.Wait() }
