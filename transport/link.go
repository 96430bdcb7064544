package transport

import (
	"context"
	"errors"

	"github.com/goccl/goccl/device"
)

// Errors of links, wrapped with details.
var (
	// ErrPeerGone: the other end vanished without a goodbye.
	ErrPeerGone = errors.New("transport: peer is gone")
	// ErrPeerClosed: the other end closed with a goodbye.
	ErrPeerClosed = errors.New("transport: peer has closed")
	// ErrClosed: this end was closed.
	ErrClosed = errors.New("transport: link is closed")
	// ErrBounds: the peer rejected an operation outside the registered memory.
	ErrBounds = errors.New("transport: outside the registered memory")
	// ErrQueueFull: the put was not queued; try again later. The Peer lives.
	ErrQueueFull = errors.New("transport: queue of puts is full")
	// ErrNotReachable: this link cannot reach that memory.
	ErrNotReachable = errors.New("transport: memory cannot be reached by this link")
)

// Remote is a location in the peer's memory, as the link addresses it.
type Remote struct {
	Ptr    device.Ptr // ipc: the address here; 0 when not mapped
	Region uint64     // networks: the id under which the peer registered the memory; 0 if not registered
	Offset uint64     // networks: offset in that memory
}

// Add returns the location n bytes further.
func (r Remote) Add(n uint64) Remote {
	if r.Ptr != 0 {
		r.Ptr = r.Ptr.Add(int64(n))
	}
	r.Offset += n
	return r
}

// Link is one direction of a connection. Operations are asynchronous and happen at the peer in the order of the calls.
type Link interface {
	// Write copies n bytes. src must not change until a later Flush returns or the value of a later Mark is visible.
	Write(dst Remote, src device.Ptr, n int64) error
	// Add adds delta to a uint64 at an 8-byte aligned location, atomically for all threads at the peer.
	Add(dst Remote, delta uint64) error
	// Store writes a uint64 at an 8-byte aligned location in one piece.
	Store(dst Remote, value uint64) error
	// Signal increments a semaphore's counter by one and wakes its sleepers. total is the number of these signals, this
	// one included: a link that cannot add stores it at TokenStoredOffset.
	Signal(dst Remote, total uint64) error
	// Mark stores value at word (host memory that the caller and its device map) once every earlier operation is
	// complete: sources may be reused and the data is at the peer.
	Mark(word device.Ptr, value uint64) error
	// Flush waits until every earlier operation is complete.
	Flush(ctx context.Context) error
	// Err returns the error that broke the link, or nil.
	Err() error
	// Close ends the link. Operations that are not flushed may be lost.
	Close() error
}

// A token is one side of a semaphore in memory: two cells of package internal/wait, first the counter that the peer
// increments, then the private count of consumed signals. Each has its own cache line, so that the peer's adds do not
// evict the private count. Behind the counter is the total of the signals that the peer's copy stream has stored;
// kernels wait for the sum.
const (
	TokenSize           = 128
	TokenStoredOffset   = 8
	TokenExpectedOffset = 64
)
