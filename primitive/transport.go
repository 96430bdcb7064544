package primitive

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Transport is the way in which bytes travel between two endpoints.
type Transport uint8

// The transports. MSCCL++ calls IPC CudaIpc.
const (
	UnknownTransport Transport = iota
	// IPC is load, store and copy on memory that both sides map: the same process, host shared memory, or a peer GPU on
	// this machine.
	IPC
	IB0
	IB1
	IB2
	IB3
	IB4
	IB5
	IB6
	IB7
	// Ethernet is TCP between hosts: Connection and PortChannel, never load and store.
	Ethernet
	numTransports

	CudaIpc = IPC
)

var transportNames = [numTransports]string{"unknown", "ipc", "ib0", "ib1", "ib2", "ib3", "ib4", "ib5", "ib6", "ib7",
	"ethernet"}

// Valid reports whether t is one of the named transports other than UnknownTransport.
func (t Transport) Valid() bool { return t > UnknownTransport && t < numTransports }

// IsIB reports whether t is one of the InfiniBand adapters.
func (t Transport) IsIB() bool { return t >= IB0 && t <= IB7 }

// network reports whether t leads to other hosts.
func (t Transport) network() bool { return t == Ethernet || t.IsIB() }

// String returns the name, for example "ipc".
func (t Transport) String() string {
	if t >= numTransports {
		return fmt.Sprintf("Transport(%d)", uint8(t))
	}
	return transportNames[t]
}

// ParseTransport parses a name as String returns it; it also accepts "cudaipc" and "tcp".
func ParseTransport(s string) (Transport, error) {
	switch l := strings.ToLower(s); l {
	case "cudaipc", "cuda_ipc", "nvlink":
		return IPC, nil
	case "tcp", "eth":
		return Ethernet, nil
	default:
		if i := slices.Index(transportNames[IPC:], l); i >= 0 {
			return IPC + Transport(i), nil
		}
	}
	return UnknownTransport, fmt.Errorf("%w: unknown transport %q: use ipc, ethernet or ib0…ib7", ErrInvalid, s)
}

// TransportFlags is a set of transports. The zero value is the empty set.
type TransportFlags uint16

// Common sets.
const (
	NoTransports    TransportFlags = 0
	AllIBTransports TransportFlags = (1<<8 - 1) << IB0
	AllTransports   TransportFlags = (1<<numTransports - 1) &^ 1
)

// Flags returns the set of the given transports. It ignores an invalid transport.
func Flags(ts ...Transport) TransportFlags {
	var f TransportFlags
	for _, t := range ts {
		f = f.With(t)
	}
	return f
}

// With returns f with t added.
func (f TransportFlags) With(t Transport) TransportFlags {
	if !t.Valid() {
		return f
	}
	return f | 1<<t
}

// Without returns f with t removed.
func (f TransportFlags) Without(t Transport) TransportFlags { return f &^ (1 << t) }

// Has reports whether t is in f.
func (f TransportFlags) Has(t Transport) bool { return t.Valid() && f&(1<<t) != 0 }

// None reports whether the set is empty.
func (f TransportFlags) None() bool { return f&AllTransports == 0 }

// Any reports whether the set has a member.
func (f TransportFlags) Any() bool { return !f.None() }

// All reports whether every transport is in the set.
func (f TransportFlags) All() bool { return f&AllTransports == AllTransports }

// Count returns the number of transports in the set.
func (f TransportFlags) Count() int { return bits.OnesCount16(uint16(f & AllTransports)) }

// String formats f, for example "ipc|ethernet", or "none".
func (f TransportFlags) String() string {
	var names []string
	for t := IPC; t < numTransports; t++ {
		if f.Has(t) {
			names = append(names, t.String())
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "|")
}
