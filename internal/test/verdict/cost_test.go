package verdict_test

import (
	"cmp"
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/test/commtest"
)

// TestCostOfRecords times all-reduces of 1 KiB by two sets of communicators, of which one records, in turns. It prints
// the median of the ratios with its interval of 95 %, and asserts nothing about speed.
func TestCostOfRecords(t *testing.T) {
	if os.Getenv("GOCCL_FULL") == "" {
		t.Skip("prints times: GOCCL_FULL=1 runs it")
	}
	commtest.OnKinds(t, 4, func(t *testing.T, n int, open func(int) (device.Device, error)) {
		const turns, calls = 400, 200
		t.Setenv("GOCCL_RECORD", "0")
		sets := [2][]*goccl.Comm{commtest.New(t, n, open, nil), nil}
		t.Setenv("GOCCL_RECORD", "512")
		sets[1] = commtest.New(t, n, open, nil)
		var times [2][]float64
		if err := commtest.Each(n, func(r int) error {
			m, err := sets[0][r].Device().Alloc(2048)
			if err != nil {
				return err
			}
			s, err := sets[0][r].Device().NewStream()
			if err != nil {
				return err
			}
			for turn := range 2 * turns {
				i := (turn + turn/2) % 2 // 0 1 1 0 0 1 1 0 …
				begin := time.Now()
				for range calls {
					if err := sets[i][r].AllReduce(m.Ptr(), m.Ptr().Add(1024), 256, datatype.Float32, datatype.Sum, s); err != nil {
						return err
					}
				}
				if err := sets[i][r].Synchronize(context.Background(), s); err != nil {
					return err
				}
				if r == 0 {
					times[i] = append(times[i], float64(time.Since(begin).Nanoseconds())/1e3/calls)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		ratios := make([]float64, turns)
		for i := range ratios {
			ratios[i] = times[1][i] / times[0][i]
		}
		for _, list := range [][]float64{ratios, times[0], times[1]} {
			slices.SortFunc(list, cmp.Compare)
		}
		t.Logf("%d ranks: without records %.3f us, with them %.3f; ratio %.4f, 95 %% within %.4f to %.4f", n,
			times[0][turns/2], times[1][turns/2], ratios[turns/2], ratios[turns/2-turns/20], ratios[turns/2+turns/20])
	})
}
