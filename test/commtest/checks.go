package commtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/test/conformance"
)

// Blames returns an error unless err is of the given kind and names the operation and one of the peers.
func Blames(err, kind error, op string, peers ...int) error {
	var ge *goccl.Error
	if !errors.As(err, &ge) || !errors.Is(err, kind) {
		return fmt.Errorf("got %v, want %v", err, kind)
	}
	for _, p := range peers {
		if ge.Peer == p && ge.Op == op && ge.Seq != 0 {
			return nil
		}
	}
	return fmt.Errorf("got %v (op %s, peer %d, #%d), want one of %v named in %s", err, ge.Op, ge.Peer, ge.Seq, peers, op)
}

// Split splits all of comms, and returns the new communicators by the old rank.
func Split(t testing.TB, comms []*goccl.Comm, color, key func(r int) int) []*goccl.Comm {
	t.Helper()
	out := make([]*goccl.Comm, len(comms))
	if err := Each(len(comms), func(r int) (err error) {
		out[r], err = comms[r].Split(context.Background(), color(r), key(r))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range out {
			if c != nil {
				_ = c.Close()
			}
		}
	})
	return out
}

// SomeCase is a collective that shows that communicators work.
var SomeCase = conformance.Case{Collective: collective.AllReduce, Type: datatype.Float32, Count: 5000}

// Failed returns a channel that is closed when the communicator has an error.
func Failed(c *goccl.Comm) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		for c.AsyncError() == nil {
			time.Sleep(50 * time.Microsecond)
		}
		close(done)
	}()
	return done
}

// Soon bounds operations that should take milliseconds.
const Soon = 30 * time.Second
