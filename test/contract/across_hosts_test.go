package contract_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/commtest"
)

// TestTwoHosts repeats tests with the ranks divided among two hosts.
func TestTwoHosts(t *testing.T) {
	t.Parallel()
	p := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^(TestGroups|TestOneGoroutineManyRanks|TestSplit|"+
		"TestShrink|TestAbortWhileBlocked|TestAbortEndsEverything|TestLateFinalize|TestFinalizeWaitsForItsOwnWork|"+
		"TestFinalizeOfWorkThatAPeerLeft|TestFinalizeAfterAFailedCall|TestUnmappedBuffer|TestInvalidGroup)$")
	p.Env = append(setting.Environ(), commtest.HostsVariable+"=2")
	if out, err := p.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestMismatchAcrossHosts: a rank that calls something else than a rank of another host fails all ranks.
func TestMismatchAcrossHosts(t *testing.T) {
	comms := commtest.NewOn(t, []int{0, 1, 0}, commtest.Host, nil)
	if err := commtest.Each(len(comms), func(r int) error {
		c := comms[r]
		mem, err := c.Device().Alloc(4096)
		if err != nil {
			return err
		}
		count := int64(100)
		if r == 1 {
			count = 99
		}
		if err := c.AllReduce(mem.Ptr(), mem.Ptr(), count, datatype.Int32, datatype.Sum, nil); !errors.Is(err,
			goccl.ErrMismatch) {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestLateAcrossHosts: ranks of two hosts name the rank that does not come, also the rank that waits for another one
// only because that waits.
func TestLateAcrossHosts(t *testing.T) {
	comms := commtest.NewOn(t, []int{0, 1, 0}, commtest.Host, func(_ int, cfg *goccl.Config) {
		cfg.OpTimeout = 500 * time.Millisecond
	})
	if err := commtest.Each(2, func(r int) error {
		err := comms[r].Barrier(nil)
		var ge *goccl.Error
		if !errors.Is(err, goccl.ErrTimeout) || !errors.As(err, &ge) || ge.Peer != 2 {
			return fmt.Errorf("rank %d: %w", r, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
