package core

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
)

// Splits that are begun one after the other, before the first has ended, meet the peers' in the same order.
func TestSplitsFollowEachOther(t *testing.T) {
	const n = 3
	c := world(t, n, Config{Timeout: 10 * time.Second})
	for range 10 {
		var ranks sync.WaitGroup
		for r, h := range c {
			ranks.Go(func() {
				colors := []int{r % 2, goccl.NoColor, 0, 1}
				if r != 1 {
					colors[1] = 5
				}
				children, parent := make([]Handle, len(colors)), object[Open](t, h)
				for i, color := range colors {
					var err error
					if children[i], err = CommSplitStart(parent, color, r, nil); err != nil {
						t.Error(err)
						return
					}
				}
				if err := CommWait(h); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
				for i, k := range children {
					if k == 0 {
						continue
					}
					err := CommWait(k)
					info, _ := CommInfoGet(k)
					if want := [][]int{{2, 1, 2}, {2, 0, 2}, {n, n, n}, {n, n, n}}[i][r]; err != nil || int(info.Size) != want {
						t.Errorf("rank %d, split %d: %d ranks, %v; want %d", r, i, info.Size, err, want)
					}
				}
				for _, k := range children {
					if k != 0 {
						_ = CommDestroy(k)
					}
				}
			})
		}
		ranks.Wait()
		if t.Failed() {
			return
		}
	}
}

// A rank without a color waits for its part of a split, also when it has begun another since.
func TestWaitsForASplitWithoutColor(t *testing.T) {
	c := world(t, 2, Config{Timeout: 10 * time.Second})
	var children [2]Handle
	begin := func(r int, color int) Handle {
		k, err := CommSplitStart(object[Open](t, c[r]), color, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	begin(0, goccl.NoColor)
	children[0] = begin(0, 0)
	waited := make(chan error, 1)
	go func() { waited <- CommWait(c[0]) }()
	select {
	case err := <-waited:
		t.Fatalf("the wait ended before the peer came: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	alone := begin(1, 0)
	children[1] = begin(1, 0)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	for _, k := range append(children[:], alone) {
		if err := CommWait(k); err != nil {
			t.Error(err)
		}
		_ = CommDestroy(k)
	}
}

// CommDestroy does not wait for peers that may never split: one thread can destroy all ranks of its process.
func TestDestroyDuringASplit(t *testing.T) {
	c := world(t, 2, Config{Timeout: time.Hour})
	k, err := CommSplitStart(object[Open](t, c[0]), 0, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range c {
		if err := CommDestroy(h); err != nil {
			t.Error(err)
		}
	}
	if err := CommWait(k); !errors.Is(err, goccl.ErrClosed) {
		t.Errorf("the split whose peer has left: %v", err)
	}
	_ = CommDestroy(k)
}

// CommFinalize waits for every split and shrink that was begun, not only for the latest.
func TestFinalizeWaitsForAllChildren(t *testing.T) {
	h := world(t, 1, Config{Timeout: 10 * time.Second})[0]
	c, err := comms.get(h)
	if err != nil {
		t.Fatal(err)
	}
	release, failed := make(chan struct{}), errors.New("no child")
	for _, wait := range []chan struct{}{release, nil} { // the second, like a shrink, does not wait for the first
		k, err := c.descend(c.cfg, func(context.Context) (*goccl.Comm, error) {
			if wait != nil {
				<-wait
			}
			return nil, failed
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = CommDestroy(k) }()
	}
	ended := make(chan error, 1)
	whole := object[Open](t, h)
	go func() { ended <- CommFinalize(whole) }()
	select {
	case err := <-ended:
		t.Errorf("it ended before the first child: %v", err)
	case <-time.After(50 * time.Millisecond):
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
