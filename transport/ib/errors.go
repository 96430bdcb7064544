package ib

import (
	"fmt"

	"github.com/goccl/goccl/internal/driver/verbs"
	"github.com/goccl/goccl/transport"
)

// Errors of this package, wrapped with the adapter, the peer and what to do.
var (
	// ErrUnavailable: this process cannot use RDMA adapters.
	ErrUnavailable = verbs.ErrUnavailable
	// ErrKey: the peer's adapter refused an address or a key. It wraps transport.ErrBounds.
	ErrKey = fmt.Errorf("%w: the peer's adapter refused the key", transport.ErrBounds)
	// ErrNoAnswer: a packet was sent as often as allowed and never acknowledged. It wraps transport.ErrPeerGone.
	ErrNoAnswer = fmt.Errorf("%w: no acknowledgement", transport.ErrPeerGone)
	// ErrQueuePair: the connection is in its error state, for a reason that the adapter did not report. It wraps
	// transport.ErrPeerGone.
	ErrQueuePair = fmt.Errorf("%w: the queue pair has failed", transport.ErrPeerGone)
	// ErrAdapter: the adapter itself failed. It wraps transport.ErrPeerGone.
	ErrAdapter = fmt.Errorf("%w: the RDMA adapter has failed", transport.ErrPeerGone)
)

// completionError is the error of a completion's status on the way from adapter to a peer.
func completionError(c *verbs.Completion, way string, wait fmt.Stringer) error {
	text := fmt.Sprintf("%s (status %d, vendor %#x)", verbs.StatusText(c.Status), c.Status, c.Vendor)
	switch c.Status {
	case verbs.RemoteAccess, verbs.RemoteInvalid:
		return fmt.Errorf("ib: %s: %w: %s: the memory was deregistered, or the key is of another adapter or process", way,
			ErrKey, text)
	case verbs.RetryExceeded:
		return fmt.Errorf("ib: %s: %w for %v: %s: the peer has died, or the network between the adapters drops packets; "+
			"compare the two GIDs and the MTU, see GOCCL_IB_TIMEOUT", way, ErrNoAnswer, wait, text)
	case verbs.ReceiverNotReady:
		return fmt.Errorf("ib: %s: %w: %s: the peer's process does not take its receives", way, ErrNoAnswer, text)
	case verbs.LocalProtection, verbs.LocalLength:
		return fmt.Errorf("ib: %s: %w: %s: the source was deregistered before the put was complete", way,
			transport.ErrBounds, text)
	case verbs.Flushed:
		return fmt.Errorf("ib: %s: %w: %s", way, ErrQueuePair, text)
	}
	return fmt.Errorf("ib: %s: %w: %s", way, ErrAdapter, text)
}

// eventError is the error of an asynchronous event that ends a Peer; nil for other events.
func eventError(kind int, way string) error {
	text := verbs.EventText(kind)
	switch kind {
	case verbs.EventQPAccess:
		return fmt.Errorf("ib: %s: %w here: %s: the peer addressed memory that is not registered here", way,
			transport.ErrBounds, text)
	case verbs.EventQPFatal, verbs.EventQPRequest:
		return fmt.Errorf("ib: %s: %w: %s", way, ErrQueuePair, text)
	case verbs.EventDeviceFatal:
		return fmt.Errorf("ib: %s: %w: %s", way, ErrAdapter, text)
	}
	return nil
}
