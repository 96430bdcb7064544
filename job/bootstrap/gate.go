package bootstrap

import (
	"context"

	"golang.org/x/sys/unix"
)

// purpose says what a rank dials another one for.
type purpose uint8

const (
	purposeData  purpose = iota
	purposeBelow         // it is its parent in the tree over which the job joins
	purposeMeet          // only to find out whether it is on the same host
	purposes
)

// newGate makes the acceptor of a rank of a large job. It lives as long as the rank.
func newGate(w *web, b *branch, fail context.CancelCauseFunc) *acceptor {
	session := func() [16]byte {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.session
	}
	rank, world := w.e.rank, w.e.size
	g := &acceptor{
		listeners: w.ls.all(), secret: w.d.secret, log: w.c.log.With("rank", rank), pending: fewPending(),
		room: w.room,
		greet: func() greeting {
			return greeting{role: roleAcceptor, world: uint32(world), rank: int32(rank), session: session()}
		},
		admit: func(them greeting) verdict {
			switch s := session(); {
			case them.world != uint32(world):
				return verdictWorld
			case them.rank < 0 || them.rank >= int32(world) || int(them.rank) == rank:
				return verdictRange
			case them.session != s || s == [16]byte{} || them.target != int32(rank):
				return verdictProtocol
			case them.purpose == purposeData:
				return w.admit(them)
			case them.purpose == purposeBelow:
				return b.admit(them)
			}
			return verdictOK
		},
		abandon: func(them greeting) {
			switch them.purpose {
			case purposeData:
				w.abandonPlace(them)
			case purposeBelow:
				b.abandon(them)
			}
		},
		enter: func(fc *frameConn, them greeting) {
			switch them.purpose {
			case purposeData:
				w.enter(fc, them)
			case purposeBelow:
				b.enter(fc, them)
			default:
				fc.close()
			}
		},
		starved: func(err error) {
			w.c.log.Warn("bootstrap: a rank cannot accept connections", "rank", rank, "error", err)
			fail(err) // without effect after the joining
		},
	}
	return g
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
