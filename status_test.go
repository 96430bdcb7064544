package goccl

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/membership"
)

// TestBlameOfSplit: errors of a new group have its numbers of ranks, and the error that has ended the caller's context
// the parent's numbers.
func TestBlameOfSplit(t *testing.T) {
	boots := bootstrap.NewLocalGroup(3)
	group := membership.New(boots[2], membership.Config{})
	defer func() { _ = errors.Join(boots[0].Close(), boots[1].Close(), boots[2].Close()); group.Wait() }()
	ended := &Error{Op: "split", Rank: 3, Peer: 2, Err: ErrTimeout}
	for _, c := range []struct{ err, ended error }{
		{fmt.Errorf("AllGather: %w", ended), ended},
		{&Error{Op: "init", Rank: 2, Peer: 1, Err: ErrTimeout}, nil},
	} {
		e := fault.Of(group.Blame("split", c.err, c.ended, []int{0, 2, 3}))
		if e.Rank != 3 || e.Peer != 2 || !errors.Is(e, ErrTimeout) {
			t.Errorf("%v: want rank 3, peer 2", e)
		}
	}
	// The rank that this one has waited for has given up meanwhile, because of another one.
	group.Status.End(&Error{Op: "communicator", Rank: 2, Peer: 0, Err: ErrTimeout})
	late := &Error{Op: "init", Rank: 2, Peer: 1, Err: ErrTimeout}
	if e := fault.Of(group.Blame("init", late, nil, []int{0, 1, 2})); e.Peer != 0 {
		t.Errorf("%v: want peer 0", e)
	}
}

// TestSynchronizeAsks: what a kernel beside the engine's reports is known when its stream has ended.
func TestSynchronizeAsks(t *testing.T) {
	d, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewComm(context.Background(), Config{Bootstrap: bootstrap.NewLocalGroup(1)[0], Device: d})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var gaveUp error
	c.status.AlsoAsk(func() error { return gaveUp })
	for _, want := range []error{nil, ErrTimeout} {
		gaveUp = want
		if err := c.AsyncError(); !errors.Is(err, want) {
			t.Errorf("AsyncError: %v, want %v", err, want)
		}
		if err := c.Synchronize(t.Context(), s); !errors.Is(err, want) {
			t.Errorf("Synchronize: %v, want %v", err, want)
		}
	}
}
