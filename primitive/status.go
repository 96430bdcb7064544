package primitive

import (
	"cmp"
	"fmt"

	"github.com/goccl/goccl/internal/abort"
)

// Status is the result of a wait in a kernel: 0, or the reason of its failure. Values below 0xffff0000 are the reason
// that the host stored in AbortBlock.Abort; the others are set by the kernel.
type Status uint32

// The statuses are the same as in kernels/include/goccl/abort.cuh.
const (
	StatusOK Status = 0
	// StatusAborted: Context.Abort was called.
	StatusAborted Status = abort.Aborted
	// StatusPeerDead: a rank of the job died.
	StatusPeerDead Status = abort.PeerDead
	// StatusClosed: the Context was closed while the kernel ran.
	StatusClosed Status = abort.Closed
	// StatusTimeout: the wait exceeded the spin limit of the Context.
	StatusTimeout Status = abort.Timeout
	// StatusInvalid: the kernel rejected an argument and did nothing.
	StatusInvalid Status = abort.Invalid
)

// Err returns nil for StatusOK and otherwise one of ErrAborted, ErrPeerDead, ErrClosed, ErrTimeout, ErrInvalid.
// Context.Err names the peer.
func (s Status) Err() error {
	switch s {
	case StatusOK:
		return nil
	case StatusPeerDead:
		return ErrPeerDead
	case StatusTimeout:
		return ErrTimeout
	case StatusClosed:
		return ErrClosed
	case StatusInvalid:
		return ErrInvalid
	}
	return ErrAborted
}

// String describes s, for example "timed out".
func (s Status) String() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusAborted, StatusPeerDead, StatusClosed, StatusTimeout, StatusInvalid:
		return s.Err().Error()
	}
	return fmt.Sprintf("Status(%#x)", uint32(s))
}

// waits are the names of the waits of kernels.
var waits = map[uint32]string{abort.WaitSemaphore: "semaphore wait", abort.WaitPacket: "packet wait",
	abort.WaitFifoSlot: "fifo push", abort.WaitFlush: "port channel flush", abort.WaitSyncer: "grid barrier",
	abort.WaitBulk: "bulk copy"}

func waitOpName(op uint32) string { return cmp.Or(waits[op], "wait") + " in a kernel" }
