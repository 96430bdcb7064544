package contract_test

import (
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/commtest"
)

// awaitVerdict waits until a rank has a verdict of the kind.
func awaitVerdict(t *testing.T, c *goccl.Comm, kind fault.VerdictKind) *goccl.Verdict {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		v := c.Verdict()
		if v != nil && v.Kind == kind {
			return v
		}
		if time.Now().After(end) {
			t.Fatalf("the verdict is %v, want %s; the records: %+v", v, kind, c.Records())
		}
	}
}

// A rank that never calls an operation is named, with its last operation.
func TestVerdictNamesTheRankThatDoesNotCall(t *testing.T) {
	t.Setenv("GOCCL_VERDICT_AFTER", "300ms")
	comms := commtest.New(t, 3, commtest.Host, nil)
	for r, c := range comms {
		mem, err := c.Device().Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = mem.Close() }()
		s, err := c.Device().NewStream()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if err = c.AllReduce(mem.Ptr(), mem.Ptr(), 100, datatype.Int32, datatype.Sum, s); err != nil {
			t.Fatal(err)
		}
		if r != 1 {
			err = c.Broadcast(mem.Ptr(), mem.Ptr(), 7, datatype.Float32, 2, s)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []int{0, 2} {
		v := awaitVerdict(t, comms[r], fault.VerdictMissing)
		if v.Rank != 1 || v.Number != 2 || v.Operation != "broadcast" || v.By != r || v.Process == 0 ||
			v.For < 300*time.Millisecond {
			t.Errorf("rank %d: %+v", r, v)
		}
		if !strings.Contains(v.What, "broadcast of 7 × float with root 2 (#2)") ||
			!strings.Contains(v.What, "all_reduce(sum)") {
			t.Errorf("rank %d: %s", r, v)
		}
	}
	if v := comms[1].Verdict(); v != nil {
		t.Errorf("rank 1 waits for nothing: %v", v)
	}
	for _, c := range comms {
		c.Abort(nil)
	}
}
