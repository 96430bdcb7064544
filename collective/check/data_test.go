package check

import (
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/membership"
)

// A rank whose operation has ended waits for the sums of a peer that aborts instead: it blames the rank that the peer
// blames.
func TestAbortEndsTheComparisonOfData(t *testing.T) {
	dev, err := host.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	a, err := dev.Alloc(64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(a.Close(), s.Close(), dev.Close()); err != nil {
			t.Error(err)
		}
	}()
	for _, r := range []collective.Request{
		{Collective: collective.AllReduce, Send: a.Ptr(), Recv: a.Ptr(), Count: 4, Type: datatype.Int32, Stream: s},
		{Collective: collective.Recv, Recv: a.Ptr(), Count: 4, Type: datatype.Int32, Peer: 0, Stream: s},
	} {
		boots := bootstrap.NewLocal(3).Ranks
		var groups []*membership.Group
		for _, b := range boots {
			groups = append(groups, membership.New(b, membership.Config{}))
		}
		k := &Checker{Group: groups[1], Boot: boots[1], Device: dev, Timeout: 5 * time.Second,
			Failure: func() error { return nil }}
		d, err := k.Begin([]collective.Request{r})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		n := 1
		if r.PointToPoint() {
			n = 0
		}
		go func() { done <- d.End(n, 1, 1) }()
		groups[0].Status.End(&fault.Error{Rank: 0, Peer: 2, Err: fault.ErrPeerDead})
		groups[0].Aborted()
		if e := fault.Of(<-done); e == nil || e.Peer != 2 || !errors.Is(e, fault.ErrPeerDead) {
			t.Errorf("%v: %v", r.Collective, e)
		}
		for i, b := range boots {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			groups[i].Wait()
		}
	}
}
