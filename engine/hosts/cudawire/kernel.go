package cudawire

import (
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/kernels"
)

// residentBlocks is how many blocks of any kernel an SM holds: __launch_bounds__ in kernels/hosts/hosts.cu.
const residentBlocks = 2

const (
	mostThreads  = 256
	leastThreads = 64
	// carveout equals the one of engine/nvlink: kernels with different parts of an SM as shared memory are never on it
	// together.
	carveout = 14
)

// typeNames are the type names in kernel names: unsigned integers share the kernels of signed ones.
var typeNames = [datatype.NumTypes]string{"int8", "int8", "int32", "int32", "int64", "int64", "float16", "float32",
	"float64", "bfloat16", "float8e4m3", "float8e5m2"}

// kernelTable holds the kernels; the last index is 1 for those with few parameters, which may
// be missing.
type kernelTable struct {
	move   [2]*cuda.Function
	reduce [datatype.NumTypes][2]*cuda.Function
}

// loadKernels loads every kernel.
func loadKernels(from *launcher.Launcher) (*kernelTable, error) {
	k := new(kernelTable)
	module, err := launcher.Load(from.Device, "hosts")
	if err != nil {
		return nil, err
	}
	find := func(name string) (*cuda.Function, error) {
		f, err := module.Function(kernels.Entry(name))
		if err != nil {
			return nil, err
		}
		return f, f.SetSharedCarveout(carveout)
	}
	for few, prefix := range []string{"wire_", "wire_few_"} {
		if k.move[few], err = find(prefix + "move"); err != nil {
			return k, err
		}
		for t := range datatype.NumTypes {
			if few == 1 && !usual(t) {
				continue
			}
			if k.reduce[t][few], err = find(prefix + "reduce_" + typeNames[t]); err != nil {
				return k, err
			}
		}
	}
	return k, nil
}

// usual are the types that have kernels with few parameters.
func usual(t datatype.Type) bool {
	return t == datatype.Float32 || t == datatype.Float16 || t == datatype.Bfloat16
}

// launch enqueues the phase that was built. All of its blocks are resident at once.
func (w *Wire) launch(s *cuda.Stream) error {
	b := w.build
	if b.tasks > residentBlocks*w.dev.Properties().SMs {
		return errTooMany
	}
	b.width = min(b.width, uint32(max(1, w.blocks/b.tasks)))
	size, _ := b.geometry.chunks(b.bytes)
	vectors := (min(size, b.bytes) + 15) / 16
	threads := min(max((vectors+31)&^31, leastThreads, int64(b.listed+31)&^31), mostThreads)
	cfg := cuda.Launch1D(b.tasks*int(b.width), int(threads), 0)
	if w.overlap {
		cfg.Flags |= cuda.LaunchOverlapPrevious
	}
	f := w.kernels.move
	if b.reductions > 0 {
		f = w.kernels.reduce[b.kernel]
	}
	if f[1] != nil && b.few(w.few) {
		return w.start(s, f[1], &cfg, launcher.Raw(w.few))
	}
	return w.start(s, f[0], &cfg, launcher.Raw(b.args))
}
