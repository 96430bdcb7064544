package cudawire

import (
	"cmp"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// Rings is what kernels of others need to use a Wire's rings (kernels/hosts/ring.cuh).
type Rings struct {
	// Links are the structures Link by rank, in device memory. An entry is set once its peer is connected.
	Links                   device.Ptr
	Lanes, Slots, SlotBytes uint32
}

// Rings returns the rings of a Wire with an Order.
func (w *Wire) Rings() Rings {
	return Rings{Links: w.launcher.State.Ptr(), Lanes: uint32(w.geo.lanes), Slots: uint32(w.geo.slots),
		SlotBytes: uint32(w.geo.slotBytes)}
}

// Begin comes before the launch of a kernel that uses the rings to peers, and Launched after it, when the Order has
// the launch: the proxy sleeps while the Order is idle. The kernel polls an abort word of the caller, which the
// caller sets when OnFailure is called.
func (w *Wire) Begin(s *cuda.Stream, op wire.Op, peers []int) error {
	if err := cmp.Or(w.Err(), w.checkAll(peers)); err != nil {
		return err
	}
	return w.begin(s, op)
}

// Launched makes the proxy look for what the kernel posts.
func (w *Wire) Launched() { w.launched() }
