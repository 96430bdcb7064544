package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/test/testutil"
)

// TestMismatch lets three of four ranks join, and then one with another world size, or with an occupied rank: a rank is
// missing for good, so all ranks must get an error with both claims at once.
func TestMismatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		rank, world int
		want        error
		say         []string
	}{
		{"wrong world size", 3, 5, ErrWorldSize,
			[]string{"rank 3 (process ", "says that the job has 5 ranks, rank 0 (process", "says 4"}},
		{"duplicate rank", 1, 4, ErrDuplicateRank, []string{"rank 1 is claimed by process ", " and by process "}},
	} {
		for _, way := range []string{"id", "address"} {
			t.Run(c.name+", "+way, func(t *testing.T) {
				t.Parallel()
				port := testutil.Port(t)
				address := fmt.Sprintf("127.0.0.1:%d", port)
				id, err := NewUniqueID(WithInterface("lo"), quiet())
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = id.Close() }()
				join := func(rank, world int) error {
					if way == "id" {
						return errOf(JoinID(context.Background(), id, rank, world, quiet(), WithTimeout(time.Minute)))
					}
					return errOf(JoinAddress(context.Background(), address, rank, world, quiet(), WithTimeout(time.Minute)))
				}
				good := make(chan error, 3)
				for r := range 3 {
					go func() { good <- join(r, 4) }()
				}
				if way == "id" {
					waitJoined(t, id, 3)
				} else {
					// On a busy machine the list of connections may be incomplete.
					for end := time.Now().Add(5 * time.Second); accepted(t, port) < 3 && time.Now().Before(end); {
						time.Sleep(10 * time.Millisecond)
					}
					time.Sleep(200 * time.Millisecond) // for the handshakes
				}
				var e *Error
				if err := join(c.rank, c.world); !errors.Is(err, c.want) || !errors.As(err, &e) || e.Rank != c.rank {
					t.Errorf("the wrong rank: %v", err)
				}
				for range 3 {
					err := <-good
					if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Peer != c.rank {
						t.Errorf("a good rank: %v", err)
					}
					for _, s := range c.say {
						if !strings.Contains(fmt.Sprint(err), s) {
							t.Errorf("%v does not say %q", err, s)
						}
					}
				}
			})
		}
	}
}

// TestWorldSizeOfTheRoot lets a rank with a wrong world size join before the rank in the root's process sets the right
// one.
func TestWorldSizeOfTheRoot(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = id.Close() }()
	f, err := id.decode()
	if err != nil {
		t.Fatal(err)
	}
	stray := make(chan error, 1)
	go func() { // as in another process: without the direct path to the root
		stray <- errOf(join(context.Background(), 0, 7, []Option{quiet(), WithTimeout(time.Minute)},
			func(*config) (meeting, error) { return meeting{secret: f.secret[:], targets: f.targets()}, nil }))
	}()
	waitJoined(t, id, 1)
	if err := errOf(JoinID(context.Background(), id, 1, 2, quiet(), WithTimeout(time.Minute))); !errors.Is(err,
		ErrWorldSize) {
		t.Errorf("the rank of the root's process: %v", err)
	}
	if err := <-stray; !errors.Is(err, ErrWorldSize) || !strings.Contains(err.Error(), "2 ranks") ||
		!strings.Contains(err.Error(), "says 7") {
		t.Errorf("the stray rank: %v", err)
	}
}

// TestNothingLeaksOnMismatch fails joins by a rank that is claimed twice and by one with another world size.
func TestNothingLeaksOnMismatch(t *testing.T) {
	run := func() {
		for _, wrong := range [][2]int{{1, 4}, {3, 5}} {
			id, err := NewUniqueID(WithInterface("lo"), quiet())
			if err != nil {
				t.Fatal(err)
			}
			join := func(rank, world int) error {
				return errOf(JoinID(context.Background(), id, rank, world, quiet(), WithTimeout(30*time.Second)))
			}
			good := make(chan error, 3)
			for r := range 3 {
				go func() { good <- join(r, 4) }()
			}
			waitJoined(t, id, 3)
			if err := join(wrong[0], wrong[1]); err == nil {
				t.Error("joined")
			}
			for range 3 {
				if <-good == nil {
					t.Error("joined")
				}
			}
			_ = id.Close()
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
