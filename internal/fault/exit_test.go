package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/goccl/goccl/internal/fault"
)

// A peer of a rank that leaves blames the rank that is behind it, never itself, and gets the kind of its error.
func TestExitTellsTheCause(t *testing.T) {
	const left, peer, third = 0, 1, 2
	for _, c := range []struct {
		cause  error
		blames int
		want   int
		kind   error
	}{
		{fault.ErrPeerDead, third, third, fault.ErrPeerDead}, {fault.ErrPeerDead, peer, left, fault.ErrAborted},
		{fault.ErrPeerDead, -1, left, fault.ErrAborted}, {fault.ErrTimeout, third, third, fault.ErrTimeout},
		{fault.ErrTimeout, peer, left, fault.ErrTimeout}, {fault.ErrTimeout, -1, left, fault.ErrTimeout},
		{fault.ErrMismatch, third, third, fault.ErrMismatch}, {fault.ErrMismatch, peer, left, fault.ErrMismatch},
		{fault.ErrUnmapped, third, third, fault.ErrUnmapped}, {fault.ErrUnmapped, peer, -1, fault.ErrAborted},
		{fault.ErrClosed, -1, left, fault.ErrAborted}, {fault.ErrClosed, third, third, fault.ErrAborted},
		{fault.ErrAborted, third, third, fault.ErrAborted}, {fault.ErrAborted, peer, left, fault.ErrAborted},
		{fault.ErrInvalidArgument, -1, left, fault.ErrAborted},
	} {
		x := fault.ExitOf(fmt.Errorf("work: %w", &fault.Error{Op: "barrier", Rank: left, Peer: c.blames, Err: c.cause}))
		blamed, err := x.Told(peer, left, " in its barrier #3")
		if !x.Valid(3) || blamed != c.want || !errors.Is(err, c.kind) {
			t.Errorf("%v of rank %d: rank %d, %v, want rank %d, %v", c.cause, c.blames, blamed, err, c.want, c.kind)
		}
	}
	if x := fault.ExitOf(errors.New("no rank")); x != fault.ExitAborted {
		t.Errorf("%x", x)
	}
	for _, x := range []fault.Exit{0, 7, 0xff, fault.ExitAborted | 4<<8} {
		if x.Valid(3) {
			t.Errorf("%#x is valid", uint32(x))
		}
	}
}

// A rank that has exited because of another one is not the cause, along a chain; a circle ends.
func TestFirst(t *testing.T) {
	because := func(peer int, kind error) fault.Exit {
		return fault.ExitOf(&fault.Error{Peer: peer, Err: kind})
	}
	exits := []fault.Exit{0, 0, because(3, fault.ErrPeerDead), because(4, fault.ErrTimeout), 0,
		because(6, fault.ErrPeerDead), because(5, fault.ErrPeerDead), because(0, fault.ErrTimeout),
		because(3, fault.ErrMismatch)}
	exit := func(rank int) fault.Exit { return exits[rank] }
	for peer, want := range map[int]int{1: 1, 2: 4, 3: 4, 7: 7, 8: 8} {
		dead := &fault.Error{Comm: "x", Op: "communicator", Rank: 0, Peer: peer, Err: fault.ErrPeerDead}
		got := fault.Of(fault.First(dead, len(exits), exit))
		if got.Peer != want || got.Comm != "x" || (want == 4) != errors.Is(got, fault.ErrTimeout) {
			t.Errorf("rank %d has died: %v, want rank %d", peer, got, want)
		}
	}
	circle := &fault.Error{Op: "communicator", Rank: 0, Peer: 5, Err: fault.ErrPeerDead}
	if got := fault.Of(fault.First(circle, len(exits), exit)); got.Peer != 5 && got.Peer != 6 {
		t.Error(got)
	}
	late := &fault.Error{Op: "communicator", Rank: 0, Peer: 2, Err: fault.ErrTimeout}
	if fault.First(late, len(exits), exit) != error(late) || fault.First(nil, 1, exit) != nil {
		t.Error("an error that is no death is changed")
	}
}
