package primitive

import "fmt"

// Status is the result of a wait in a kernel: 0, or the reason of its failure. Values below 0xffff0000 are the reason
// that the host stored in AbortBlock.Abort; the others are set by the kernel.
type Status uint32

// The statuses are the same as in kernels/include/goccl/abort.cuh.
const (
	StatusOK Status = 0
	// StatusAborted: Context.Abort was called.
	StatusAborted Status = 1
	// StatusPeerDead: a rank of the job died.
	StatusPeerDead Status = 2
	// StatusClosed: the Context was closed while the kernel ran.
	StatusClosed Status = 3
	// StatusTimeout: the wait exceeded the spin limit of the Context.
	StatusTimeout Status = 0xffff0001
	// StatusInvalid: the kernel rejected an argument and did nothing.
	StatusInvalid Status = 0xffff0002
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

// The kinds of waits, as in AbortBlock.Op.
const (
	waitNone uint32 = iota
	waitSemaphore
	waitPacket
	waitFifoSlot
	waitFlush
	waitSyncer
	waitBulk
)

// unknownPeer is AbortBlock.Peer if the kernel does not know the peer.
const unknownPeer = 1<<32 - 1

func waitOpName(op uint32) string {
	switch op {
	case waitSemaphore:
		return "semaphore wait in a kernel"
	case waitPacket:
		return "packet wait in a kernel"
	case waitFifoSlot:
		return "fifo push in a kernel"
	case waitFlush:
		return "port channel flush in a kernel"
	case waitSyncer:
		return "grid barrier in a kernel"
	case waitBulk:
		return "bulk copy in a kernel"
	}
	return "wait in a kernel"
}
