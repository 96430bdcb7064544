package nvlink

import "github.com/goccl/goccl/device/cuda"

// GraphOrder is what the order of the work does about graphs.
func (cfg *Config) GraphOrder() cuda.GraphOrder {
	switch {
	case cfg.UnorderedCaptures:
		return cuda.UnorderedCaptures
	case cfg.SeparateGraphs:
		return cuda.SeparateGraphs
	}
	return cuda.OrderedGraphs
}

// Overlaps reports whether a launch may start before the previous kernel has ended: no other rank uses this GPU, and
// the GPU and the settings allow it.
func (e *Engine) Overlaps() bool { return e.overlaps }

// Room is the number of blocks that kernels of other parts of a communicator of several hosts may have on this GPU at
// the same time as this engine's; 0 is no bound.
func (e *Engine) Room() int { return e.room }

// Order is the order of the communicator's work on this GPU, for other packages that enqueue work. It is valid as long
// as the engine.
func (e *Engine) Order() *cuda.Order { return e.launcher.Order }
