package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/testutil"
)

// TestMissingRanks names who did not come, in every rank. The root says it four times a second to those who are there.
func TestMissingRanks(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 2)
	for r := range 2 {
		go func() {
			errs <- NewTCP(r, 3, quiet(), WithTimeout(time.Duration(3+r)*time.Second)).Init(context.Background(), id)
		}()
	}
	for range 2 {
		err := <-errs
		var e *Error
		if !errors.Is(err, ErrTimeout) || !errors.As(err, &e) || e.Peer != 2 || !strings.Contains(err.Error(), "[2]") {
			t.Errorf("got %v", err)
		}
	}
	if err := id.Close(); err != nil {
		t.Error(err)
	}
}

func TestNobodyAtTheRoot(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	if err := id.Close(); err != nil {
		t.Fatal(err)
	}
	err = NewTCP(0, 2, quiet(), WithTimeout(2*time.Second)).Init(context.Background(), id)
	if !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := NewTCP(0, 2, quiet()).Init(ctx, id); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b := NewTCP(0, 2, quiet())
	time.AfterFunc(50*time.Millisecond, func() { _ = b.Close() })
	if err := b.Init(context.Background(), id); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	unused, err := NewUniqueID(WithInterface("lo"), quiet(), WithRootLifetime(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if r := liveRoot(unused); r != nil {
		select {
		case <-r.done:
		case <-time.After(30 * time.Second):
			t.Error("an unused root does not end")
		}
	}
}

// TestNothingLeaksOnFailure fails joins in several ways.
func TestNothingLeaksOnFailure(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", testutil.Port(t))
	run := func() {
		id, err := NewUniqueID(WithInterface("lo"), quiet())
		if err != nil {
			t.Fatal(err)
		}
		r := liveRoot(id)
		var wg sync.WaitGroup
		for rank := range 3 {
			wg.Go(func() {
				opts := []Option{quiet(), WithTimeout(100 * time.Millisecond)}
				if err := NewTCP(rank, 4, opts...).Init(context.Background(), id); err == nil {
					t.Error("joined without rank 3")
				}
			})
		}
		wg.Wait()
		_ = id.Close() // it would wait for rank 3, to tell it
		<-r.done
		if err := NewTCP(0, 2, quiet(), WithTimeout(50*time.Millisecond)).InitAddress(context.Background(), address); err == nil {
			t.Error("joined alone")
		}
	}
	run()
	goroutines, fds := settled(0, 0)
	for range 3 {
		run()
	}
	if g, f := settled(goroutines, fds); g > goroutines || f > fds {
		t.Fatalf("goroutines %d → %d, descriptors %d → %d", goroutines, g, fds, f)
	}
}
