package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/goccl/goccl/internal/fault"
)

func TestErrorsAreFoundByPart(t *testing.T) {
	low := &fault.Error{Part: "bootstrap", Op: "recv", Rank: 1, Peer: 2,
		Err: fmt.Errorf("%w: %w", fault.ErrClosed, io.EOF)}
	high := &fault.Error{Comm: "x", Op: "all_reduce", Rank: 3, Peer: -1, Seq: 12, Err: low}
	both := errors.Join(low, high)
	if fault.Of(low) != nil || fault.Of(both) != high || fault.Of(nil) != nil || fault.Of(io.EOF) != nil {
		t.Errorf("%v, %v", fault.Of(low), fault.Of(both))
	}
	if fault.PartOf(high, "bootstrap") != low || fault.PartOf(low, "memory") != nil {
		t.Error("the part is not found")
	}
	if p := fault.PeerOf(high); p != 2 {
		t.Errorf("rank %d is to blame", p)
	}
	if p := fault.PeerOf(io.EOF); p != -1 {
		t.Errorf("rank %d is to blame", p)
	}
	if !errors.Is(high, fault.ErrClosed) || !errors.Is(high, io.EOF) {
		t.Error("the kind is lost")
	}
	for want, err := range map[string]error{
		`goccl: all_reduce #12 of "x" on rank 3: bootstrap: recv on rank 1, peer 2: the communicator is closed: EOF`: high,
		"rank 5 is odd: EOF": fault.Blame("memory", 5, "rank %d is odd: %w", 5, io.EOF),
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
