package kernels

import (
	"strings"
	"testing"

	"github.com/goccl/goccl/tools/kernels/cubin"
)

// blocksOf returns the largest block of a kernel, and how many such blocks an SM must hold at once.
func blocksOf(name string) (threads, resident int) {
	switch {
	case strings.Contains(name, "point_to_point_stream"):
		return 288, 2
	case strings.Contains(name, "point_to_point"), strings.Contains(name, "all_to_all_v"):
		return 256, 3
	case strings.HasSuffix(name, "_n2"), strings.HasSuffix(name, "_n4"):
		return 512, 2
	case strings.HasSuffix(name, "_n8"):
		return 256, 2
	}
	return 512, 1
}

// Kernels that wait for peers leave room on every SM for kernels of other communicators, as the engine's grids assume.
func TestPacketKernelsShareSMs(t *testing.T) {
	const registers, unit = 64 << 10, 256 // registers of an SM, and the granularity of a warp's allocation
	for _, group := range []string{"collective", "pcie"} {
		for _, arch := range [][2]int{{8, 0}, {9, 0}, {10, 0}} {
			image, err := Image(group, arch[0], arch[1])
			if err != nil {
				t.Fatal(err)
			}
			found, err := cubin.Inspect(image)
			if err != nil || len(found) == 0 {
				t.Fatalf("%s for sm_%d%d: %d kernels, %v", group, arch[0], arch[1], len(found), err)
			}
			for _, k := range found {
				threads, resident := blocksOf(k.Name)
				warp := (k.Registers*32 + unit - 1) / unit * unit
				if fit := registers / (warp * (threads / 32)); fit < resident {
					t.Errorf("sm_%d%d: %s has %d registers: %d blocks of %d threads fit on an SM, want %d", arch[0], arch[1], k.Name,
						k.Registers, fit, threads, resident)
				}
			}
		}
	}
}
