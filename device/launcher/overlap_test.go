package launcher

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/goccl/goccl/device/cuda"
)

func TestOverlapThreads(t *testing.T) {
	text, err := os.ReadFile("../../kernels/collective/ticket.cuh")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`constexpr uint32_t overlapThreads = (\d+);`).FindSubmatch(text)
	if m == nil || string(m[1]) != strconv.Itoa(OverlapThreads) {
		t.Errorf("ticket.cuh has overlapThreads %q, the host %d", m, OverlapThreads)
	}
	for _, c := range []struct {
		blocks, threads int
		want            bool
	}{{1, 32, true}, {160, 128, true}, {40, 512, true}, {161, 128, false}, {41, 512, false}} {
		cfg := cuda.Launch1D(c.blocks, c.threads, 0)
		Overlap(&cfg)
		if got := cfg.Flags&cuda.LaunchOverlapPrevious != 0; got != c.want {
			t.Errorf("%d blocks of %d threads: overlap %v", c.blocks, c.threads, got)
		}
	}
}
