package algorithm

import (
	"io"

	"github.com/goccl/goccl/device"
)

// Windower is implemented by engines that use windows: memory that all ranks register together, each rank its own part,
// all of the same size and in the same order. A buffer in a window must have the same offset on every rank.
type Windower interface {
	// RegisterWindow registers the size bytes at p as this rank's part of the next window. It waits for no peer.
	// Nothing may use the window after its Close is called. RegisterWindow and Close follow the threading rule of
	// Enqueue; Close may also be called after the engine's Close.
	RegisterWindow(p device.Ptr, size int64) (io.Closer, error)
}
