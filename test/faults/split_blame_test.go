package faults_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
)

// deaf is a Bootstrap that learns of deaths late, and whose AllGather waits once armed is set.
type deaf struct {
	bootstrap.Bootstrap
	armed *atomic.Bool
}

func (d deaf) Sub(ctx context.Context, ranks []int, space int) (bootstrap.Bootstrap, error) {
	b, err := d.Bootstrap.Sub(ctx, ranks, space)
	return deaf{b, d.armed}, err
}

func (d deaf) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	if d.armed.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.Bootstrap.AllGather(ctx, data)
}

func (d deaf) Failures() <-chan bootstrap.PeerFailure {
	early, late := d.Bootstrap.Failures(), make(chan bootstrap.PeerFailure, d.WorldSize())
	go func() {
		defer close(late)
		for f := range early {
			time.Sleep(50 * time.Millisecond)
			late <- f
		}
	}()
	return late
}

// A rank dies in a Split. One survivor knows at once and shrinks; another learns of the shrink before it learns of the
// death. Its error blames the dead rank, not the one that shrinks.
func TestSplitBlamesTheDead(t *testing.T) {
	var armed atomic.Bool
	f := newFamily(t, 3, time.Minute, func(r int, b bootstrap.Bootstrap) bootstrap.Bootstrap {
		if r == 0 {
			return deaf{b, &armed}
		}
		return b
	})
	armed.Store(true)
	if err := commtest.Each(2, func(r int) error {
		if r == 0 {
			_, err := f.comms[0].Split(context.Background(), 0, 0)
			if !errors.Is(err, goccl.ErrPeerDead) {
				return fmt.Errorf("rank 0: %w", err)
			}
			armed.Store(false)
			if err := blamesRank(err, 0, 2); err != nil {
				return err
			}
		} else {
			time.Sleep(20 * time.Millisecond) // rank 0 is in Split
			f.local.Kill(2)
		}
		small, err := f.comms[r].Shrink(context.Background(), []int{2}, true)
		if err == nil {
			err = small.Close()
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
