package hosts_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/engine/hosts"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// TestForcedAcrossHosts runs each algorithm that a table can choose, at all sizes.
func TestForcedAcrossHosts(t *testing.T) {
	layouts := [][]int{{0, 0, 1, 1}} // all algorithms run on it
	if setting.Lenient().Full != "" {
		layouts = append(layouts, []int{0, 0, 0, 1}, []int{0, 1, 0, 1, 2})
	}
	for i, layout := range layouts {
		for _, c := range conformance.Collectives {
			for _, name := range hosts.Algorithms(c) {
				t.Run(fmt.Sprint(layout, c, name), func(t *testing.T) { forced(t, layout, c, name, uint64(i)) })
			}
		}
	}
}

func forced(t *testing.T, layout []int, c collective.Collective, name string, seed uint64) {
	comms := commtest.NewOn(t, layout, commtest.Host, func(_ int, cfg *goccl.Config) {
		cfg.Algorithms = fmt.Sprintf("%v:%s", c, name)
	})
	known := func(a collective.Info) bool { return a.Collective == c && a.Name == name && a.Forceable }
	if !slices.ContainsFunc(comms[0].Catalog(), known) {
		t.Skip("it cannot run on these hosts")
	}
	for _, x := range conformance.Trimmed(len(layout), seed, []int64{0, 1, 127, 4096, 65537}) {
		if x.Collective == c {
			run(t, comms, x)
		}
	}
}

// TestRanksForceDifferently refuses a communicator whose ranks would send each other different messages.
func TestRanksForceDifferently(t *testing.T) {
	layout := []int{0, 0, 1, 1}
	boots := bootstrap.NewLocalHosts(layout).Ranks
	errs := make([]error, len(layout))
	_ = commtest.Each(len(layout), func(r int) error {
		dev, err := commtest.Host(r)
		if err != nil {
			return err
		}
		cfg := goccl.Config{Bootstrap: boots[r], Device: dev, Algorithms: "all_reduce:rails"}
		if r == 3 {
			cfg.Algorithms = "all_reduce:leaders"
		}
		c, err := goccl.NewComm(t.Context(), cfg)
		if err == nil {
			_ = c.Close()
		}
		errs[r] = err
		_, _ = boots[r].Close(), dev.Close()
		return nil
	})
	for r, err := range errs {
		if !errors.Is(err, goccl.ErrMismatch) {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}
