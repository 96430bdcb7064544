package executor

import (
	"testing"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/plans"
)

// putHooks writes the hooks of a rank: for each the link of its counter, whether the plan takes it, and the bytes that
// it guards.
func putHooks(put func(v ...any), p *plan.Plan, l *plan.Layout, prog *program) {
	put(uint32(len(prog.hooks)))
	for id := range prog.hooks {
		h := &prog.hooks[id]
		link, takes := prog.firstHook+id, uint32(1)
		if !h.Takes() {
			link, takes = prog.firstHook+p.GPUs[prog.rank].CallerEnd(id), 0
		}
		at := l.Offset(h.Index)
		put(uint32(link), takes, uint64(at), uint64(l.Offset(h.Index+h.Size)-at))
	}
}

// kernelHooks runs the kernel beside a caller that writes the input, and reads the output, while it runs.
func kernelHooks(t *testing.T, program string) {
	for _, n := range []int{2, 3} {
		p, err := plans.AllGatherTiles(n, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, tile := range []uint64{16, 1040} {
			c := emulation{plan: p, message: uint64(n) * 3 * tile, t: datatype.Float32, threads: 3, launches: 4}
			if err := c.run(t, program); err != nil {
				t.Errorf("%d ranks, tiles of %d bytes: %v", n, tile, err)
			}
		}
	}
}
