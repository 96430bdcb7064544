package executor

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/device"
)

// Age makes a plan on a GPU that has not run yet look as if its latest launch had number epoch. All ranks call it
// before any launches.
func (x *ExecutionPlan) Age(dev device.Device, epoch uint32) error {
	h, ok := x.engine.(*cudaEngine)
	if !ok {
		return fmt.Errorf("%T has no epoch in device memory", x.engine)
	}
	for b := range h.program.blocks {
		at := h.layout.program + int64(b*h.program.stride) + int64(unsafe.Offsetof(gpuHeader{}.epoch))
		if err := dev.CopyIn(h.launcher.State.Ptr().Add(at), binary.LittleEndian.AppendUint32(nil, epoch)); err != nil {
			return err
		}
	}
	return nil
}
