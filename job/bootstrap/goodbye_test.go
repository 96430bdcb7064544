package bootstrap

import (
	"context"
	"errors"
	"testing"
	"time"
)

// pair makes a group of ranks 0 and 1 of three.
func pair(t *testing.T, bs []Bootstrap) [2]Bootstrap {
	t.Helper()
	var out [2]Bootstrap
	errs := make(chan error, 2)
	for r := range out {
		go func() {
			var err error
			out[r], err = bs[r].Sub(context.Background(), []int{0, 1}, 3)
			errs <- err
		}()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	return out
}

// The exit of a rank that has left all shared groups is not a death; where it has not left a group, its end is a death,
// in that group only.
func TestLeaveIsNoDeath(t *testing.T) {
	mortal(t, 3, func(t *testing.T, bs []Bootstrap, kill func(int)) {
		sub := pair(t, bs)
		inSub, inJob, other := sub[0].Failures(), bs[0].Failures(), bs[2].Failures()
		if err := sub[1].Send(context.Background(), 0, 9, []byte("last")); err != nil {
			t.Fatal(err)
		}
		Leave(sub[1])
		ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
		defer stop()
		AwaitLeave(ctx, sub[0])
		if ctx.Err() != nil {
			t.Fatal("rank 0 does not see that rank 1 has left")
		}
		if b, err := sub[0].Recv(ctx, 1, 9); err != nil || string(b) != "last" {
			t.Errorf("what was sent before: %q, %v", b, err)
		}
		if _, err := sub[0].Recv(ctx, 1, 9); !errors.Is(err, ErrClosed) || errors.Is(err, ErrPeerDead) {
			t.Errorf("Recv from a rank that has left: %v", err)
		}
		kill(1)
		if got := next(inJob, 30*time.Second); got != 1 {
			t.Errorf("the job hears of %d, want 1, which has not left it", got)
		}
		if got := next(other, 30*time.Second); got != 1 {
			t.Errorf("rank 2 hears of %d, want 1", got)
		}
		if got := next(inSub, 200*time.Millisecond); got != -1 {
			t.Errorf("the group that rank 1 has left hears of its death: %d", got)
		}
		if _, err := sub[0].Recv(ctx, 1, 9); !errors.Is(err, ErrClosed) || errors.Is(err, ErrPeerDead) {
			t.Errorf("Recv after the end of a rank that has left: %v", err)
		}
	})
	mortal(t, 3, func(t *testing.T, bs []Bootstrap, kill func(int)) {
		sub := pair(t, bs)
		gone := []<-chan PeerFailure{sub[0].Failures(), bs[0].Failures(), bs[2].Failures()}
		Leave(sub[1])
		Leave(bs[1])
		Leave(bs[1]) // a second time
		ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
		defer stop()
		AwaitLeave(ctx, sub[0])
		kill(1)
		Leave(bs[2])
		AwaitLeave(ctx, bs[0])
		if ctx.Err() != nil {
			t.Fatal("the leaves do not arrive")
		}
		for i, ch := range gone {
			if got := next(ch, 200*time.Millisecond); got != -1 {
				t.Errorf("subscription %d hears of the death of %d, which had left", i, got)
			}
		}
		if err := bs[2].Send(ctx, 0, 1, nil); err != nil {
			t.Errorf("ranks that are left: %v", err)
		}
	})
}

// All ranks leave, one after the other, and each sees the others leave.
func TestAllLeave(t *testing.T) {
	mortal(t, 3, func(t *testing.T, bs []Bootstrap, _ func(int)) {
		ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
		defer stop()
		for _, b := range bs {
			Leave(b)
		}
		for _, b := range bs {
			AwaitLeave(ctx, b)
		}
		if ctx.Err() != nil {
			t.Error("some leave did not arrive")
		}
	})
}

// AwaitLeave ends with its context.
func TestAwaitLeaveIsBounded(t *testing.T) {
	bs := NewLocalGroup(2)
	defer closeAll(bs)
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer stop()
	AwaitLeave(ctx, bs[0])
	if ctx.Err() == nil {
		t.Error("it did not wait")
	}
}

// Ids that no rank joins cost a process a bounded number of sockets: none for ids whose join by a rank of this process
// was cancelled, and a few, besides the recent ones, for the others.
func TestUnusedIDs(t *testing.T) {
	before := openFDs()
	var ids []UniqueID
	for range 20 {
		id, err := NewUniqueID(quiet())
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	wanted := ids[0]
	done := make(chan error, 2)
	for r := range 2 {
		go func() {
			b, err := JoinID(context.Background(), wanted, r, 2, quiet())
			if err == nil {
				err = b.Close()
			}
			done <- err
		}()
		for r == 0 && !liveRoot(wanted).joined() { // rank 1 joins only after rank 0 has
			time.Sleep(time.Millisecond)
		}
		if r == 0 {
			closeUnused(5, time.Hour)
			if _, err := NewUniqueID(quiet()); err != nil || liveRoot(ids[1]) == nil {
				t.Errorf("a young id is gone: %v", err)
			}
			closeUnused(5, 0)
			live := 0
			for _, id := range ids {
				r := liveRoot(id)
				if r == nil {
					continue
				}
				select {
				case <-r.ended:
				default:
					live++
				}
			}
			if live > 5 {
				t.Errorf("%d roots wait for ranks, want at most 5 beside the one that a rank has joined", live)
			}
		}
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Errorf("an id whose ranks had come: %v", err)
	}
	gone, stop := context.WithCancel(context.Background())
	stop()
	for range 20 {
		id, err := NewUniqueID(quiet())
		if err != nil {
			t.Fatal(err)
		}
		if err := errOf(JoinID(gone, id, 0, 2, quiet())); err == nil {
			t.Error("a rank joined with an ended context")
		}
		if r := liveRoot(id); r != nil {
			select {
			case <-r.ended: // its late error remains, for half a minute
			default:
				t.Error("the root of a rank that was called off waits for others")
			}
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		_ = id.Close()
	}
	if _, fds := settled(0x7fffffff, before+3); fds > before+3 { // one id above is never closed
		t.Errorf("%d descriptors, %d before", fds, before)
	}
}
