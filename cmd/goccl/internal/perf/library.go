package perf

import (
	"context"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
)

// Peers is the communication among the ranks of a measurement. Every bootstrap.Bootstrap implements it.
type Peers interface {
	Rank() int
	WorldSize() int
	AllGather(ctx context.Context, data []byte) ([][]byte, error)
	Barrier(ctx context.Context) error
}

// Communicator is one rank of a library under measurement.
type Communicator interface {
	// Submit enqueues the requests, as one group when there are several, on the stream that each names.
	Submit(requests ...collective.Request) error
	// Synchronize waits until the stream's work is done, and returns the first failure of the communicator.
	Synchronize(ctx context.Context, s device.Stream) error
	// Close frees the communicator's resources. Enqueued work has ended.
	Close() error
}

// Library makes communicators. Its name labels the columns and the rows of the record.
type Library interface {
	Name() string
	// Version is the version that the library reports.
	Version() string
	// Open joins the communicator of all peers on dev. All ranks call it together.
	Open(ctx context.Context, peers Peers, dev device.Device) (Communicator, error)
}

// Graph is a captured sequence of operations.
type Graph interface {
	Launch(s device.Stream) error
	Close() error
}
