package faults_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
)

// A Grow that waits for a new rank ends when a rank of the communicator dies, not at its deadline, and names that rank.
func TestGrowEndsWithADeath(t *testing.T) {
	f := newFamily(t, 3, time.Minute, nil)
	id, err := bootstrap.NewUniqueID(bootstrap.WithTimeout(5 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { f.local.Kill(1) })
	if err := commtest.Each(3, func(r int) error {
		mine := &id
		if r != 0 {
			mine = nil
		}
		_, err := f.comms[r].Grow(context.Background(), 4, mine)
		switch {
		case r == 1:
			return nil
		case !errors.Is(err, goccl.ErrPeerDead):
			return err
		}
		return blamesRank(err, r, 1)
	}); err != nil {
		t.Error(err)
	}
}
