package collective

import "github.com/goccl/goccl/device"

// Operation is work that another engine than the communicator's runs: package engine/moe, package engine/fused. The
// communicator orders, checks, numbers and records it like requests of its engine.
type Operation interface {
	// Request describes the operation to the communicator, or returns the fault of its arguments; the request
	// names the operation in either case. Its Stream is nil for the default stream. If its PartOf is set, Enqueue
	// enqueues requests on the communicator's engine, which orders and records them.
	Request() (Request, error)
	// Enqueue puts the operation on a stream and does not wait for it. seq is its number, the same on all ranks.
	Enqueue(seq uint64, s device.Stream) error
}
