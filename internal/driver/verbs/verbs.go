package verbs

import (
	"errors"
	"sync"
)

// ErrUnavailable means that there is no usable libibverbs.
var ErrUnavailable = errors.New("verbs: no RDMA library")

// Load opens the library once. The error wraps ErrUnavailable and says why.
var Load = sync.OnceValue(open)

// The structures of calls.h are in zz_layout.go.
//
//go:generate go run ../../../tools/layouts

// Ethernet is a LinkLayer of Attributes.
const Ethernet = 2

// GID is an address of a port: an IPv6 address, or one of IPv4 that is mapped into it.
type GID [16]byte

// RoCEv2 is the Type of entries whose packets are UDP.
const RoCEv2 = 2

// Opcodes and flags of Work.
const (
	Write          = 0
	WriteImmediate = 1
	Read           = 4

	Signaled = 2
	Inline   = 8
)

// Statuses of a Completion, and the Opcode of a received write with immediate.
const (
	Success          = 0
	LocalLength      = 1
	LocalProtection  = 4
	Flushed          = 5 // the queue pair had failed before
	RemoteInvalid    = 9
	RemoteAccess     = 10
	RetryExceeded    = 12
	ReceiverNotReady = 13
)

// Kinds of Context.Event.
const (
	EventQPFatal     = 1
	EventQPRequest   = 2
	EventQPAccess    = 3
	EventDeviceFatal = 8
)

// Access to registered memory.
const (
	AccessLocalWrite  = 1
	AccessRemoteWrite = 2
	AccessRemoteRead  = 4
	AccessRelaxed     = 1 << 20 // the adapter may reorder its writes on PCIe
)

// The objects of the library.
type (
	Context uint64
	PD      uint64
	CQ      uint64
	QP      uint64
	Channel uint64
)

// MR is registered memory.
type MR struct {
	handle     uint64
	LKey, RKey uint32
}
