package fused

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/goccl/goccl/kernels"
)

// The size of the kernels' parameters is the size that a launch passes.
func TestParameterSize(t *testing.T) {
	image, err := kernels.Image("fused", 99, 0) // text
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Appendf(nil, "_param_0[%d]", unsafe.Sizeof(kernelArgs{}))
	for _, name := range kernels.Names("fused") {
		if !bytes.Contains(image, append([]byte(name), want...)) {
			t.Errorf("%s has another number of bytes of parameters than %s", name, want)
		}
	}
}

// An arena is within its bound, and its slots hold whole rows. One row more would not fit.
func TestArena(t *testing.T) {
	for n := 2; n <= 16; n++ {
		for _, row := range []int64{16, 8 << 10, 16 << 10, 64 << 10} {
			for _, most := range []int{1, 14, 116, 500} {
				blocks, slot := arena(n, most, row)
				size := blocks * blockBytes(n, slot)
				if blocks < 1 || blocks > min(mostBlocks, int64(most)) || slot%row != 0 || size > arenaBytes ||
					slot < slotRows*row && size+blocks*blockBytes(n, row) <= arenaBytes {
					t.Errorf("%d ranks, rows of %d bytes, %d blocks: %d with slots of %d bytes", n, row, most, blocks, slot)
				}
			}
		}
	}
	if blocks, slot := arena(2, 116, 16<<10); blocks != 116 || slot != 64<<10 {
		t.Errorf("two H200: %d blocks with slots of %d bytes", blocks, slot)
	}
}
