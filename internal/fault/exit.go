package fault

import (
	"errors"
	"fmt"
)

// Exit is why a rank has left, in one word that its peers can read: a reason in the low byte, and above it one more
// than the rank that it blames. 0: the rank has not left.
type Exit uint32

// The reasons of an Exit.
const (
	ExitClosed Exit = 1 + iota
	ExitAborted
	ExitDead
	ExitTimeout
	ExitMismatch
	ExitUnmapped // a buffer of the blamed rank

	exitEnd
	exitReason = 0xff
)

// ErrUnmapped is the error of a rank that met memory of a peer which is not mapped.
var ErrUnmapped = fmt.Errorf("%w: a memory fault", ErrAborted)

// exitKinds are the kinds of errors by reason.
var exitKinds = [exitEnd]error{ExitDead: ErrPeerDead, ExitTimeout: ErrTimeout, ExitMismatch: ErrMismatch,
	ExitUnmapped: ErrUnmapped}

// ExitOf returns the Exit of a rank that leaves because of an error.
func ExitOf(cause error) Exit {
	x, peer := ExitAborted, -1
	if e := Of(cause); e != nil {
		peer = e.Peer
	}
	if errors.Is(cause, ErrClosed) && peer < 0 {
		return ExitClosed
	}
	for _, reason := range []Exit{ExitDead, ExitTimeout, ExitMismatch, ExitUnmapped} {
		if errors.Is(cause, exitKinds[reason]) {
			x = reason
			break
		}
	}
	return x | Exit(peer+1)<<8
}

// Reason is x without the rank that it blames.
func (x Exit) Reason() Exit { return x & exitReason }

// Valid reports whether x is an Exit of a communicator of that many ranks.
func (x Exit) Valid(ranks int) bool {
	return x.Reason() > 0 && x.Reason() < exitEnd && x.blamed() < ranks
}

// blamed is the rank that x blames, or -1.
func (x Exit) blamed() int { return int(x>>8) - 1 }

// Told returns the rank to blame by rank me, which waits for rank peer and finds its Exit, and the cause: the rank that
// the peer blames, unless that is me or none. in is "" or names the peer's operation, like " in its barrier #5".
func (x Exit) Told(me, peer int, in string) (blamed int, cause error) {
	blamed = x.blamed()
	accused, whom := blamed == me, fmt.Sprintf("rank %d", blamed)
	switch {
	case accused:
		blamed, whom = peer, "this rank"
	case blamed < 0:
		blamed, whom = peer, "others"
	}
	kind := exitKinds[x.Reason()]
	switch x.Reason() {
	case ExitClosed:
		return peer, fmt.Errorf("%w: rank %d has closed its communicator", ErrAborted, peer)
	case ExitDead:
		if accused {
			return peer, fmt.Errorf("%w: rank %d has given this rank up as dead", ErrAborted, peer)
		} else if blamed != peer {
			return blamed, fmt.Errorf("%w: rank %d cannot reach %s", kind, peer, whom)
		}
	case ExitTimeout:
		return blamed, fmt.Errorf("%w: rank %d waited for %s%s and has given up", kind, peer, whom, in)
	case ExitMismatch:
		return blamed, fmt.Errorf("%w: rank %d has found that%s", kind, peer, in)
	case ExitUnmapped:
		if accused {
			return -1, fmt.Errorf("%w: rank %d cannot reach this rank's buffers%s: one is not mapped: it is shorter than its "+
				"count says, or freed", ErrAborted, peer, in)
		}
		return blamed, fmt.Errorf("%w in a buffer of rank %d: rank %d met it%s", kind, blamed, peer, in)
	}
	if blamed != peer {
		return blamed, fmt.Errorf("%w: rank %d has given up%s because of %s", ErrAborted, peer, in, whom)
	}
	return peer, fmt.Errorf("%w: rank %d has aborted%s", ErrAborted, peer, in)
}

// First returns cause or, if cause is the death of a rank that had left because of another rank, the error behind it: a
// rank that exits after a failure is not to blame for it. exit returns the Exit of a rank.
func First(cause error, ranks int, exit func(rank int) Exit) error {
	for range ranks {
		e := Of(cause)
		if e == nil || e.Peer < 0 || !errors.Is(cause, ErrPeerDead) {
			return cause
		}
		x := exit(e.Peer)
		blamed, reason := x.blamed(), x.Reason()
		if reason != ExitDead && reason != ExitTimeout || blamed < 0 || blamed == e.Rank || blamed == e.Peer {
			return cause
		}
		cause = &Error{Comm: e.Comm, Op: e.Op, Rank: e.Rank, Peer: blamed,
			Err: fmt.Errorf("%w: rank %d reported it before it ended", exitKinds[reason], e.Peer)}
	}
	return cause
}
