package moe

import (
	"fmt"

	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/kernels"
)

const (
	maxStages = 2 * workThreads / 32
	// With fewer stages a block has no more in flight than by loads and stores.
	minStages    = 4
	barrierBytes = 16 // behind the stages, for each: barriers, and what a slot holds
)

// staging is what moves plain rows by bulk copies, through stages of shared memory: kernels/moe/stage.cuh. Places and
// flags do not differ, so a rank and an operation may have it and others not.
type staging struct {
	dispatch, rows *cuda.Function
	room           int // bytes of dynamic shared memory of a block
}

// open loads the kernels, of GPUs that have bulk copies.
func (s *staging) open(module *cuda.Module, p cuda.Properties) error {
	if p.Major < 9 {
		return nil
	}
	for _, k := range []struct {
		f    **cuda.Function
		name string
	}{{&s.dispatch, "dispatch"}, {&s.rows, "combine"}} {
		f, err := module.Function(kernels.Entry("moe_" + k.name + "_staged"))
		if err != nil {
			return err
		}
		a, err := f.Attributes()
		if err != nil {
			return err
		}
		s.room = (p.SharedOptin - a.StaticShared) &^ 127
		if err := f.SetMaxDynamicShared(s.room); err != nil {
			return fmt.Errorf("%d bytes of shared memory: %w", s.room, err)
		}
		*k.f = f
	}
	return nil
}

// kernel returns staged, and fills in the stages of k, where this rank has more tokens than go as packets and a block
// has room for enough stages; else plain.
func (s *staging) kernel(plain, staged *cuda.Function, k *rowArgs, tokens int) *cuda.Function {
	stage := uint32(max(k.slot, 16*MaxRanks)) // has room for 16 bytes of a row of each rank
	count := min(maxStages, s.room/(int(stage)+barrierBytes))
	if staged == nil || tokens <= int(k.packets) || count < minStages {
		return plain
	}
	k.stage, k.stages = stage, uint32(count)
	return staged
}

// shared is the dynamic shared memory of a kernel.
func (s *staging) shared(f *cuda.Function) uint32 {
	if f == s.dispatch || f == s.rows {
		return uint32(s.room)
	}
	return 0
}
