package executor

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/abort"
)

// CountsOf is the table of counts among the parameters of a launch on a GPU.
func CountsOf(params []byte) device.Ptr {
	return device.Ptr(binary.NativeEndian.Uint64(params[unsafe.Offsetof(gpuArgs{}.counts):]))
}

// GiveUp does what a kernel does that waits in vain.
func (x *ExecutionPlan) GiveUp() {
	x.engine.(*cudaEngine).launcher.Abort.Reported.Store(abort.Timeout)
}

// Live counts this rank's directory entries and its mappings of peers' buffers.
func (e *Executor) Live() (entries, mappings int) {
	if e.buffers == nil {
		return 0, 0
	}
	return e.buffers.Live()
}

// CountSteps adds 1 to n whenever a wait of a launch on the host device ends well. Nothing may have been launched yet.
func (x *ExecutionPlan) CountSteps(n *atomic.Uint64) {
	r := x.engine.(*hostEngine).run
	for i := range r.worker {
		ready := r.worker[i].cond
		r.worker[i].cond = func() bool {
			ok := ready()
			if ok {
				n.Add(1)
			}
			return ok
		}
	}
}

// UseCores makes launches of large messages use n workers, as on a host with so many processors for each rank. Nothing
// may have been launched yet. On GPUs it has no effect.
func (x *ExecutionPlan) UseCores(n int) {
	h, ok := x.engine.(*hostEngine)
	if !ok {
		return
	}
	h.cores = n
	h.run.worker = newRun(h).worker
	for i := range h.run.worker {
		h.run.worker[i].r = h.run
	}
}
