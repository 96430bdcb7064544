package nvlink

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
)

// allToAllVDevice launches the kernel that reads its counts on the device: kernels/collective/all_to_all_v.cuh. The
// host does not know the counts, so the grid has the size for the largest batch of messages.
func (e *Engine) allToAllVDevice(r *collective.Request, s *cuda.Stream) error {
	if err := e.need(pieceMessages, e.everyRank()); err != nil {
		return err
	}
	a, c := e.counted, &r.DeviceCounts
	a.send, a.recv = uint64(r.Send), uint64(r.Recv)
	a.counts = [2]uint64{uint64(c.RecvCounts), uint64(c.SendCounts)}
	a.displs = [2]uint64{uint64(c.RecvDispls), uint64(c.SendDispls)}
	a.elements = [2]uint64{lengthOf(r.Recv, c.RecvElements), lengthOf(r.Send, c.SendElements)}
	a.elementBytes = uint32(r.Type.Size())
	a.channels = uint32(e.p2pChannels)
	return e.submit(s, e.kernels.counted, (2*e.size-1)*e.p2pChannels, p2pThreads, launcher.Raw(a))
}

// lengthOf is the bound that the kernel checks counts and displacements against. If the length of a buffer is unknown,
// the bound exceeds any memory.
func lengthOf(buffer device.Ptr, elements int64) uint64 {
	switch {
	case buffer == 0:
		return 0
	case elements == 0:
		return 1 << 46
	}
	return uint64(elements)
}
