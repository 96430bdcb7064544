package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/openfiles"
	"github.com/goccl/goccl/internal/sockets"
)

// acceptor admits authenticated ranks through listeners that any process may reach.
//
// The resources of unauthenticated connections are bounded: maxPending connections (see sockets.Lobby), each with a
// fixed-size read and a lifetime of handshakeTimeout. A connection that has proved the secret is never dropped.
type acceptor struct {
	listeners []net.Listener
	secret    []byte
	greet     func() greeting
	admit     func(greeting) verdict // checks the greeting and reserves the rank's place
	enter     func(*frameConn, greeting)
	abandon   func(greeting) // undoes admit for a rank whose handshake failed
	starved   func(error)    // this process has been out of descriptors for some time
	room      func()         // if not nil: returns when one more connection may come
	pending   int            // connections that may wait for authentication; 0: maxPending
	log       *slog.Logger

	lobby    *sockets.Lobby
	refused  sockets.Tally
	shortage atomic.Pointer[error] // the newest failure to accept a connection for lack of descriptors
	closed   atomic.Bool
	wg       sync.WaitGroup
}

func (g *acceptor) serve() {
	g.lobby = sockets.NewLobby(cmp.Or(g.pending, maxPending))
	for _, l := range g.listeners {
		g.wg.Go(func() { g.accept(l) })
	}
}

func (g *acceptor) accept(l net.Listener) {
	var shortage openfiles.Shortage
	for {
		if g.room != nil {
			g.room()
		}
		c, err := l.Accept()
		lasts := shortage.Lasts(err)
		if err != nil {
			if g.closed.Load() || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, or the connection was aborted: drop the oldest connection and continue.
			if openfiles.Exhausted(err) {
				explained := openfiles.Explain(err)
				g.shortage.Store(&explained)
			}
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
		g.wg.Go(func() { g.handshake(c, v) })
	}
}

// reason adds to a passed deadline that this process could not accept connections. A shortage that ends for a moment
// with every connection that is dropped does not last (see openfiles.Shortage), and yet nobody gets in.
func (g *acceptor) reason(err error) error {
	short := g.shortage.Load()
	if short == nil || !errors.Is(err, ErrTimeout) || openfiles.Exhausted(err) {
		return err
	}
	return fmt.Errorf("%w; connections with this rank failed: %w", err, *short)
}

func (g *acceptor) handshake(c net.Conn, v *sockets.Pending) {
	remote := c.RemoteAddr().String()
	admitted := false
	err := checkPeer(c)
	var fc *frameConn
	var them greeting
	if err == nil {
		sockets.Tune(c, 0)
		fc, them, err = shakeAcceptor(c, g.secret, g.greet(), time.Now().Add(handshakeTimeout), v.Greeted,
			func(gr greeting) verdict {
				if !v.Leave() {
					return verdictTimeout // it was dropped in the meantime and gets no answer
				}
				verdict := g.admit(gr)
				admitted = verdict == verdictOK
				return verdict
			})
	}
	v.Leave()
	if err != nil {
		// Free the place first: the rank may retry at once.
		if admitted {
			g.abandon(them)
		}
		_ = c.Close()
		// Do not log connections that shut() dropped, but log rejected ranks, even late ones.
		if !g.closed.Load() || them.version != 0 {
			g.refuseRank(remote, them, err)
		}
		return
	}
	g.enter(fc, them)
}

func (g *acceptor) refuseRank(remote string, them greeting, err error) {
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

func (g *acceptor) refuse(reason, remote string, err error) {
	if n, report := g.refused.Count(reason); report {
		g.log.Warn("bootstrap: refused a connection", "reason", reason, "remote", remote, "error", err, "times", n)
	}
}

// shut closes the listeners and drops unauthenticated connections. Callers that must not return before all connections
// have ended also call wait.
func (g *acceptor) shut() {
	if g.closed.Swap(true) {
		return
	}
	closeListeners(g.listeners)
	if g.lobby != nil { // it has served
		g.lobby.Close()
	}
}

func (g *acceptor) wait() { g.wg.Wait() }

// purpose says what a rank dials another one for.
type purpose uint8

const (
	purposeData   purpose = iota
	purposeBelow          // it is its parent in the tree over which the job joins
	purposeMeet           // only to find out whether it is on the same host, or listens
	purposeResume         // the connection with a neighbour broke
	purposes
)

// newGate makes the acceptor of a rank. It must not serve before b has its session.
func newGate(o *overlay, b *branch, fail context.CancelCauseFunc) *acceptor {
	rank, world := o.e.rank, o.e.size
	return &acceptor{
		listeners: o.ls.all(), secret: o.d.secret, log: o.c.log.With("rank", rank), pending: fewPending(),
		room: o.room,
		greet: func() greeting {
			return greeting{role: roleAcceptor, world: uint32(world), rank: int32(rank), session: b.session}
		},
		admit: func(them greeting) verdict {
			switch {
			case them.world != uint32(world):
				return verdictWorld
			case them.rank < 0 || them.rank >= int32(world) || int(them.rank) == rank:
				return verdictRange
			case them.session != b.session || them.target != int32(rank):
				return verdictProtocol
			case them.purpose == purposeData:
				return o.reserve(int(them.rank))
			case them.purpose == purposeBelow:
				return b.admit(them)
			case them.purpose == purposeResume:
				return o.mayResume(int(them.rank))
			}
			return verdictOK
		},
		abandon: func(them greeting) {
			switch them.purpose {
			case purposeData:
				o.unreserve(int(them.rank))
			case purposeBelow:
				b.abandon(them)
			}
		},
		enter: func(fc *frameConn, them greeting) {
			switch them.purpose {
			case purposeData:
				o.enter(fc, int(them.rank))
			case purposeBelow:
				b.enter(fc, them)
			case purposeResume:
				o.enterAgain(fc, int(them.rank))
			default:
				fc.close()
			}
		},
		starved: func(err error) {
			o.c.log.Warn("bootstrap: a rank cannot accept connections", "rank", rank, "error", err)
			fail(err) // without effect after the joining
		},
	}
}

// fewPending is the number of connections that may wait for authentication: of the descriptors of this process an
// eighth.
func fewPending() int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		return maxPending
	}
	return int(min(max(r.Cur/8, 8), maxPending))
}
