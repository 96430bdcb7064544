package bootstrap

import (
	"context"

	"golang.org/x/sys/unix"
)

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
