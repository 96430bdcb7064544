package nvlink

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
)

// Foreign kernels are kernels of other packages that run as work of an engine: in its order, with its abort block, and
// with few enough blocks to leave room for kernels of other communicators. Their parameters begin with a ticket
// (kernels/collective/ticket.cuh).

// ForeignBlocks is the maximum number of blocks of 512 threads of a foreign kernel that waits for peers. It is the same
// on all ranks.
func (e *Engine) ForeignBlocks() int { return int(e.maxBlocks[0]) }

// LaunchForeign launches a foreign kernel. If a wait of it fails, the error names op and seq. It follows the threading
// rule of Enqueue.
func (e *Engine) LaunchForeign(seq uint64, op collective.Collective, s *cuda.Stream, f *cuda.Function, blocks,
	threads int, params []byte) error {
	e.latest.set(seq, op)
	return e.submit(s, f, blocks, threads, params)
}

// ForeignFunction finds a foreign kernel in a module, with the shared memory that the engine's kernels have.
func ForeignFunction(m *cuda.Module, name string) (*cuda.Function, error) { return function(m, name) }
