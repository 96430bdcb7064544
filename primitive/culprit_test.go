package primitive

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/goccl/goccl/job/bootstrap"
)

// TestCulprit: of ranks that wait for each other in a chain, each names the one at its end.
func TestCulprit(t *testing.T) {
	const n = 4
	group := bootstrap.NewLocal(n)
	var comms [n]*Communicator
	for r := range comms {
		comms[r] = NewCommunicator(group.Ranks[r], newContext(t))
		defer func() { _ = comms[r].Close() }()
	}
	for _, c := range []struct {
		waits, names [n]int // NoRank: this rank has no error
	}{
		{[n]int{1, 2, NoRank, 0}, [n]int{2, 2, NoRank, 2}},
		{[n]int{NoRank, 0, 0, 1}, [n]int{NoRank, 0, 0, 0}},
		{[n]int{1, 0, 1, NoRank}, [n]int{1, 0, 1, NoRank}}, // a circle: nobody knows better
	} {
		var wg sync.WaitGroup
		for r, p := range c.waits {
			var failed error
			if p != NoRank {
				failed = failure("wait", r, p, ErrTimeout)
			}
			wg.Go(func() {
				err := comms[r].Culprit(context.Background(), failed)
				var e *Error
				if failed == nil && err != nil || failed != nil && (!errors.As(err, &e) || e.Peer != c.names[r] ||
					!errors.Is(err, ErrTimeout)) {
					t.Errorf("%v: rank %d: %v", c.waits, r, err)
				}
			})
			if failed == nil { // it has failed before, as often as the others
				comms[r].culprits++
			}
		}
		wg.Wait()
	}
}

// A word of an earlier failure is not taken for one of this failure, and other errors are left alone.
func TestCulpritForgets(t *testing.T) {
	group := bootstrap.NewLocal(3)
	a, b := NewCommunicator(group.Ranks[0], newContext(t)), NewCommunicator(group.Ranks[1], newContext(t))
	defer func() { _, _ = a.Close(), b.Close() }()
	late := failure("wait", 1, 2, ErrTimeout)
	if err := b.Culprit(context.Background(), late); !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
	a.culprits++
	var e *Error
	err := a.Culprit(context.Background(), failure("wait", 0, 1, ErrTimeout))
	if !errors.As(err, &e) || e.Peer != 1 {
		t.Error(err)
	}
	for _, other := range []error{nil, ErrClosed, &Error{Op: "wait", Rank: 0, Peer: NoRank, Err: ErrTimeout}} {
		if err := a.Culprit(context.Background(), other); err != other { //nolint:errorlint // the same error
			t.Error(err)
		}
	}
}
