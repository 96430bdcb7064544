package algorithm

import (
	"io"

	"github.com/goccl/goccl/device"
)

// Windower is what engines also implement that have a use for windows: memory that all ranks register together, each its own, of the same size, in the same
// order. An operation whose buffer lies in a window lies at the same offset of it on every rank.
type Windower interface {
	// RegisterWindow names the size bytes at p as this rank's part of the next window, and waits for no peer. Nothing may use the window any more when
	// its Close is called. Both are called where Enqueue may be; Close also after the engine's.
	RegisterWindow(p device.Ptr, size int64) (io.Closer, error)
}
