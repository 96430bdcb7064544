package hosts_test

import (
	"errors"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/test/commtest"
)

// TestMatrixOfCounts refuses a matrix of counts with another shape, and one that differs from the peers'.
func TestMatrixOfCounts(t *testing.T) {
	comms := commtest.NewOn(t, []int{0, 0, 1, 1}, commtest.Host, nil)
	displs := []int64{0, 8, 16, 24}
	call := func(r int, counts []int64) error {
		c := comms[r]
		m, err := c.Device().Alloc(64)
		if err != nil {
			return err
		}
		return c.AllToAllVMatrix(m.Ptr(), displs, m.Ptr().Add(32), displs, counts, datatype.Int8, nil)
	}
	if err := call(0, make([]int64, 4)); !errors.Is(err, goccl.ErrInvalidArgument) {
		t.Fatalf("a matrix of 4 entries: %v", err)
	}
	errs := make([]error, len(comms))
	_ = commtest.Each(len(comms), func(r int) error {
		counts := make([]int64, 16)
		for i := range counts {
			counts[i] = 8
		}
		if r >= 2 {
			counts[1] = 7 // what rank 0 sends to rank 1: neither is on this host
		}
		errs[r] = call(r, counts)
		return nil
	})
	found := false
	for r, err := range errs {
		if err != nil && !errors.Is(err, goccl.ErrMismatch) && !errors.Is(err, goccl.ErrAborted) {
			t.Errorf("rank %d: %v", r, err)
		}
		found = found || errors.Is(err, goccl.ErrMismatch)
	}
	if !found {
		t.Errorf("matrices that differ: %v", errs)
	}
}
