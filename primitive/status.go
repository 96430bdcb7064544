package primitive

import "fmt"

// Status is what a wait in a kernel returns: 0, or why it gave up. The numbers are those of the AbortBlock's first word, on every device.
type Status uint32

// The reasons.
const (
	StatusOK Status = iota
	// StatusAborted: Context.Abort was called.
	StatusAborted
	// StatusPeerDead: a rank of the job died.
	StatusPeerDead
	// StatusTimeout: the spin limit of the Context was reached.
	StatusTimeout
	// StatusClosed: the Context was closed under the kernel.
	StatusClosed
)

// Err is nil for StatusOK and otherwise one of ErrAborted, ErrPeerDead, ErrTimeout, ErrClosed. Context.Err says which peer.
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
	}
	return ErrAborted
}

// String is like "timed out".
func (s Status) String() string {
	if s == StatusOK {
		return "ok"
	}
	if s > StatusClosed {
		return fmt.Sprintf("Status(%d)", uint32(s))
	}
	return s.Err().Error()
}

// Operations that a kernel reports in AbortBlock.Op when it gives up.
const (
	opNone uint32 = iota
	opSemaphoreWait
	opFifoPush
	opFlush
	opPacket
)

func deviceOpName(op uint32) string {
	switch op {
	case opSemaphoreWait:
		return "semaphore wait"
	case opFifoPush:
		return "fifo push"
	case opFlush:
		return "port channel flush"
	case opPacket:
		return "packet unpack"
	}
	return "device wait"
}
