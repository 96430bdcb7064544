package verify

import (
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/plan"
)

// liveClocks is how many clocks a thread block holds at a time, measured on trees, rings and exchanges of 256 to 1,024
// ranks: that of its phase, that with its own progress, and those that are on their way to it.
const liveClocks = 3

// fits estimates the memory that a run takes: cells, and clocks of an entry per component for each thread block.
func (v *verifier) fits() error {
	n := int64(len(v.cells)) * int64(unsafe.Sizeof(cell{}))
	for _, b := range v.blocks {
		if v.quotient.own(b.rank) {
			n += liveClocks * v.time.bytes()
		}
	}
	if n > v.opts.MaxBytes {
		return tooMuch(v.p, n, v.opts.MaxBytes)
	}
	return nil
}

func tooMuch(p *plan.Plan, bytes, bound int64) error {
	return fmt.Errorf("plan %s: %w: not examined, because that takes about %d MiB of memory and the bound is %d MiB; use "+
		"fewer thread blocks per rank, or let all ranks do alike, so that one stands for all", p.Name, ErrTooLarge,
		bytes>>20, bound>>20)
}
