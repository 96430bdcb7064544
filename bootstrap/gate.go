package bootstrap

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/openfiles"
	"github.com/goccl/goccl/internal/sockets"
)

// gate admits authenticated ranks through listeners that anybody may reach.
//
// What a stranger can cost is bounded: maxPending connections, each with a fixed-size read and handshakeTimeout to live. When all places
// are taken the oldest connection that has said nothing is dropped for the new one, else the oldest of all. Who has proved the secret is
// dropped by nobody.
type gate struct {
	listeners []net.Listener
	secret    []byte
	greet     func() greeting
	admit     func(greeting) verdict // judges, and reserves the rank's place
	enter     func(*frameConn, greeting)
	abandon   func(greeting) // undoes admit for a rank that did not get through
	starved   func(error)    // this process has had no room to accept anybody for some time
	log       *slog.Logger

	mu      sync.Mutex
	pending []*visitor // oldest first
	closed  bool
	refused map[string]int
	wg      sync.WaitGroup
}

type visitor struct {
	c     net.Conn
	heard bool
}

func (g *gate) serve() {
	g.refused = map[string]int{}
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
			g.mu.Lock()
			closed := g.closed
			g.mu.Unlock()
			if closed || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors or an aborted connection: make room and go on.
			g.refuse("accept", "", err)
			g.evict()
			if lasts {
				g.starved(openfiles.Explain(err))
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		v := &visitor{c: c}
		g.mu.Lock()
		full := len(g.pending) >= maxPending
		g.mu.Unlock()
		if full {
			g.evict()
		}
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			_ = c.Close()
			return
		}
		g.pending = append(g.pending, v)
		g.mu.Unlock()
		g.wg.Go(func() { g.visit(v) })
	}
}

func (g *gate) evict() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) == 0 {
		return
	}
	i := max(0, slices.IndexFunc(g.pending, func(v *visitor) bool { return !v.heard }))
	v := g.pending[i]
	g.pending = slices.Delete(g.pending, i, i+1)
	_ = v.c.Close()
}

func (g *gate) visit(v *visitor) {
	remote := v.c.RemoteAddr().String()
	admitted := false
	err := checkPeer(v.c)
	var fc *frameConn
	var them greeting
	if err == nil {
		sockets.Tune(v.c, 0)
		fc, them, err = shakeAcceptor(v.c, g.secret, g.greet(), time.Now().Add(handshakeTimeout), func() {
			g.mu.Lock()
			v.heard = true
			g.mu.Unlock()
		}, func(gr greeting) verdict {
			if !g.settle(v) {
				return verdictTimeout // it was dropped meanwhile, and cannot be told
			}
			verdict := g.admit(gr)
			admitted = verdict == verdictOK
			return verdict
		})
	}
	g.settle(v)
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if err != nil {
		// A rank that comes again at once must find its place free.
		if admitted {
			g.abandon(them)
		}
		_ = v.c.Close()
		// Visitors that shut() dropped are no news; one that was told no is, however late.
		if !closed || them.version != 0 {
			g.refuseRank(remote, them, err)
		}
		return
	}
	g.enter(fc, them)
}

// settle takes v from those that may be dropped; false if that has happened to it.
func (g *gate) settle(v *visitor) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.pending, v)
	if i >= 0 {
		g.pending = slices.Delete(g.pending, i, i+1)
	}
	return i >= 0
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

// refuse logs the 1st to 8th refusal of a kind and then each power of two, so that a flood cannot fill a disk.
func (g *gate) refuse(reason, remote string, err error) {
	g.mu.Lock()
	g.refused[reason]++
	n := g.refused[reason]
	g.mu.Unlock()
	if n <= 8 || bits.OnesCount(uint(n)) == 1 {
		g.log.Warn("bootstrap: refused a connection", "reason", reason, "remote", remote, "error", err, "times", n)
	}
}

// shut closes the listeners and drops who is not through yet. Callers that must not return before every visitor is gone wait as well.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	for _, l := range g.listeners {
		_ = l.Close()
	}
	for _, v := range g.pending {
		_ = v.c.Close()
	}
	g.pending = nil
}

func (g *gate) wait() { g.wg.Wait() }
