package primitive

import "fmt"

// Status is what a wait in a kernel returns: 0, or why it gave up. Below 0xffff0000 it is the reason that the host put into AbortBlock.Abort;
// the rest are the kernel's own.
type Status uint32

// The statuses; kernels/include/goccl/abort.cuh has the same.
const (
	StatusOK Status = 0
	// StatusAborted: Context.Abort was called.
	StatusAborted Status = 1
	// StatusPeerDead: a rank of the job died.
	StatusPeerDead Status = 2
	// StatusClosed: the Context was closed under the kernel.
	StatusClosed Status = 3
	// StatusTimeout: the wait outlived the spin limit of the Context.
	StatusTimeout Status = 0xffff0001
	// StatusInvalid: the kernel refused an argument; nothing was done.
	StatusInvalid Status = 0xffff0002
)

// Err is nil for StatusOK and otherwise one of ErrAborted, ErrPeerDead, ErrClosed, ErrTimeout, ErrInvalid. Context.Err says which peer.
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

// String is like "timed out".
func (s Status) String() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusAborted, StatusPeerDead, StatusClosed, StatusTimeout, StatusInvalid:
		return s.Err().Error()
	}
	return fmt.Sprintf("Status(%#x)", uint32(s))
}

// What a wait that gave up was waiting for, as in AbortBlock.Op.
const (
	waitNone uint32 = iota
	waitSemaphore
	waitPacket
	waitFifoSlot
	waitFlush
	waitSyncer
	waitBulk
)

// unknownPeer is AbortBlock.Peer when the kernel cannot tell.
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
