package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestSub(t *testing.T) {
	mortal(t, 5, func(t *testing.T, bs []Bootstrap, kill func(int)) {
		ctx := context.Background()
		// Evens and odds at once, the odds in reverse.
		colors := [][]int{{0, 2, 4}, {3, 1}}
		subs := make([]Bootstrap, 5)
		each(t, bs, func(b Bootstrap) error {
			s, err := b.Sub(ctx, colors[b.Rank()%2], 1)
			if err != nil {
				return err
			}
			subs[b.Rank()] = s
			if want := slices.Index(colors[b.Rank()%2], b.Rank()); s.Rank() != want || s.WorldSize() != len(colors[b.Rank()%2]) {
				return fmt.Errorf("rank %d of %d, want %d", s.Rank(), s.WorldSize(), want)
			}
			all, err := s.AllGather(ctx, []byte{byte(b.Rank())})
			for i, got := range all {
				if int(got[0]) != colors[b.Rank()%2][i] {
					return fmt.Errorf("part %d is of rank %d", i, got[0])
				}
			}
			// Messages with the same peer and tag in parent and child do not mix.
			next := (s.Rank() + 1) % s.WorldSize()
			prev := (s.Rank() + s.WorldSize() - 1) % s.WorldSize()
			parentNext, parentPrev := colors[b.Rank()%2][next], colors[b.Rank()%2][prev]
			err = errors.Join(err, b.Send(ctx, parentNext, 3, []byte("parent")), s.Send(ctx, next, 3, []byte("child")))
			fromChild, err1 := s.Recv(ctx, prev, 3)
			fromParent, err2 := b.Recv(ctx, parentPrev, 3)
			if string(fromChild) != "child" || string(fromParent) != "parent" {
				err = fmt.Errorf("got %q and %q", fromChild, fromParent)
			}
			return errors.Join(err, err1, err2, b.Barrier(ctx))
		})

		// A death is reported in each group of the dead rank, in the group's numbering.
		kill(1)
		select {
		case f := <-subs[3].Failures():
			if f.Rank != 1 {
				t.Errorf("rank %d of the odds failed, want 1", f.Rank)
			}
		case <-time.After(30 * time.Second):
			t.Error("no failure in the child")
		}
		alive := survivors(bs, 1)
		each(t, alive, func(b Bootstrap) error {
			s, err := b.Sub(ctx, []int{0, 2, 3, 4}, 2)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }()
			return s.Barrier(ctx)
		})
		each(t, []Bootstrap{bs[0], bs[2], bs[4]}, func(b Bootstrap) error { return subs[b.Rank()].Barrier(ctx) })
		if _, err := bs[0].Sub(ctx, []int{0, 1}, 3); wantDead(err, 1) != nil {
			t.Error(err)
		}

		// Closing a child does not affect the parent, and closing the parent does not affect the child.
		_ = subs[0].Close()
		if _, err := subs[2].Recv(ctx, 0, 0); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		each(t, alive, func(b Bootstrap) error { return b.Send(ctx, 0, 8, nil) })
		_ = bs[2].Close()
		_ = bs[4].Close()
		if err := subs[2].Send(ctx, 2, 1, []byte("still here")); err != nil {
			t.Error(err)
		}
		if got, err := subs[4].Recv(ctx, 1, 1); err != nil || string(got) != "still here" {
			t.Error(got, err)
		}
		closeAll(subs)
	})
}

// TestSubAgain makes the same child many times; a message left in one is not received in the next, and nothing
// accumulates.
func TestSubAgain(t *testing.T) {
	implementations(t, 2, func(t *testing.T, bs []Bootstrap) {
		ctx := context.Background()
		for i := range 50 {
			each(t, bs, func(b Bootstrap) error {
				s, err := b.Sub(ctx, []int{0, 1}, 0)
				if err != nil {
					return err
				}
				if err := s.Send(ctx, 1-b.Rank(), 0, []byte{byte(i)}); err != nil {
					return err
				}
				if b.Rank() == 0 {
					got, err := s.Recv(ctx, 1, 0)
					if err != nil || got[0] != byte(i) {
						return fmt.Errorf("round %d: %v, %v", i, got, err)
					}
				}
				return errors.Join(s.Barrier(ctx), s.Close())
			})
		}
		each(t, bs, func(b Bootstrap) error { return b.Barrier(ctx) })
		for _, b := range bs {
			e := b.(*group).e
			e.box.mu.Lock()
			if len(e.box.queues) != 0 || len(e.box.left) != 0 || len(e.groups) != 1 {
				t.Errorf("left behind: %d queues, %d notices, %d groups", len(e.box.queues), len(e.box.left), len(e.groups))
			}
			e.box.mu.Unlock()
		}
	})
}

func TestHosts(t *testing.T) {
	bs := NewLocalHosts([]int{7, 3, 7, 3, 3}).Ranks
	if got := bs[0].Hosts(); !slices.Equal(got, []int{0, 1, 0, 1, 1}) {
		t.Error(got)
	}
	if LocalRank(bs[4]) != 2 || LocalSize(bs[4]) != 3 || !slices.Equal(LocalRanks(bs[2]), []int{0, 2}) {
		t.Error(LocalRank(bs[4]), LocalSize(bs[4]), LocalRanks(bs[2]))
	}
	each(t, bs, func(b Bootstrap) error {
		s, err := SplitByHost(context.Background(), b)
		if err != nil {
			return err
		}
		if s.WorldSize() != LocalSize(b) || s.Rank() != LocalRank(b) || slices.Max(s.Hosts()) != 0 {
			return fmt.Errorf("rank %d of %d on hosts %v", s.Rank(), s.WorldSize(), s.Hosts())
		}
		return s.Close()
	})
	for _, b := range tcpGroup(t, 2) {
		if !slices.Equal(b.Hosts(), []int{0, 0}) {
			t.Error(b.Hosts())
		}
	}
}
