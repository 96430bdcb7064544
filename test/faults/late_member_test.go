package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// late is a Bootstrap whose collective calls end after a delay, as on a rank that is not scheduled. Its Subs are late,
// too.
type late struct{ bootstrap.Bootstrap }

func (l late) delay(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(50 * time.Millisecond):
		return err
	}
}

func (l late) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	all, err := l.Bootstrap.AllGather(ctx, data)
	return all, l.delay(ctx, err)
}

func (l late) Barrier(ctx context.Context) error { return l.delay(ctx, l.Bootstrap.Barrier(ctx)) }

func (l late) Sub(ctx context.Context, ranks []int, space int) (bootstrap.Bootstrap, error) {
	b, err := l.Bootstrap.Sub(ctx, ranks, space)
	return late{b}, l.delay(ctx, err)
}

// The others complete a Split and call Shrink while one rank is still in the Split.
func TestShrinkOvertakesSplit(t *testing.T) {
	const n = 4
	f := newFamily(t, n, 20*time.Second, func(r int, b bootstrap.Bootstrap) bootstrap.Bootstrap {
		if r == 1 {
			return late{b}
		}
		return b
	})
	small := make([]*goccl.Comm, n)
	if err := commtest.Each(n, func(r int) error {
		color := 1
		if r == 0 {
			color = goccl.NoColor
		}
		sub, err := f.comms[r].Split(context.Background(), color, 0)
		if err != nil || sub == nil {
			return err
		}
		defer func() { _ = sub.Close() }()
		if small[r], err = f.comms[r].Shrink(context.Background(), []int{0}, false); err != nil {
			return err
		}
		if small[r].WorldSize() != n-1 {
			return fmt.Errorf("%d ranks remain on rank %d, want %d", small[r].WorldSize(), r, n-1)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := conformance.Run(small[1:], commtest.SomeCase); err != nil {
		t.Error(err)
	}
	for _, c := range small[1:] {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
