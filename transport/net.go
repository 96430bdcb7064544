package transport

import (
	"context"

	"github.com/goccl/goccl/device"
)

// Net is a network: TCP, verbs, or a plugin of ncclNet. It moves bytes one-sided between registered memory of two
// processes. Its only ordering rule is stated at Put: users must assume that puts of one Peer arrive in any order.
type Net interface {
	// Name is "tcp", "ib", or the name of the plugin.
	Name() string
	// NICs lists the adapters that can be used now.
	NICs() ([]NIC, error)
	// Open opens an adapter by its index in NICs.
	Open(nic int) (Port, error)
}

// NIC describes a network adapter.
type NIC struct {
	Name      string  // "eth0", "mlx5_0"
	PCI       string  // the path of the PCI device in sysfs; "" if there is none
	Speed     float64 // bytes a second in one direction; 0 if unknown
	DeviceMem bool    // GPU memory can be registered
}

// Port is an open adapter. Several goroutines may use it. Close ends its Peers and Regions.
type Port interface {
	// Register makes size bytes at p available to Put, as a source and, for peers that have its Key, as a destination.
	// The memory must stay valid until Region.Close has returned. Memory that the adapter cannot reach fails with
	// ErrNotReachable: the caller then stages through host memory.
	Register(dev device.Device, p device.Ptr, size int64) (Region, error)
	// NewPeer makes this side's half of a connection to one peer. The halves exchange Address through the bootstrap,
	// and then both call Connect.
	NewPeer() (Peer, error)
	Close() error
}

// Poller is a Port whose arrivals come sooner if a goroutine that waits for them polls.
type Poller interface {
	// Poll takes the arrivals that there are. It does not block. Between Polling(1) and Polling(-1) the caller polls
	// again and again, and the port leaves that to it: no thread is woken, and one Poll may leave arrivals to the next,
	// so that it ends soon although a peer sends without end.
	Poll()
	Polling(delta int)
}

// Batcher is a Peer that sends several small puts in one system call. Puts between Hold and Release may wait until
// Release. The calls are balanced, and the time between them is short.
type Batcher interface {
	Hold()
	Release()
}

// Region is registered memory.
type Region interface {
	// Key names the region for peers. It is a secret: it is sent through the bootstrap only.
	Key() []byte
	Close() error
}

// Peer is one end of a connection between two processes. Several goroutines may use it.
type Peer interface {
	// Address is what the other half needs to connect. It is a secret.
	Address() []byte
	// Connect joins this half with the half whose Address is remote. It returns when puts are possible.
	Connect(ctx context.Context, remote []byte) error
	// Import makes a peer's Region usable as a destination of this Peer.
	Import(key []byte) (RemoteRegion, error)
	// Put writes size bytes of src, from offset srcOff, to dst, from offset dstOff, and after these bytes are visible
	// at the peer adds one to the peer's counter imm. size may be 0. Put does not block. done, if it is not nil, is
	// called once: with nil when the source may be reused, or with the error that broke the Peer. done must not block
	// and must not call Put. If Put returns an error, done is not called; after ErrQueueFull the Peer lives.
	Put(src Region, srcOff int64, dst RemoteRegion, dstOff int64, size int64, imm uint32, done func(error)) error
	// Arrived returns how many puts with imm have arrived in the whole. A reader that sees the count also sees the
	// bytes of those puts. imm is below NumImmediates.
	Arrived(imm uint32) uint64
	// Wait waits until Arrived(imm) is at least n. It returns the error that broke the Peer if that comes first.
	Wait(ctx context.Context, imm uint32, n uint64) error
	// OnArrival registers f to be called, on a goroutine of the network, after each arrival with imm. It must not
	// block. A nil f removes it; no call is under way when OnArrival has returned.
	OnArrival(imm uint32, f func(arrived uint64))
	// Flush waits until every earlier Put has arrived.
	Flush(ctx context.Context) error
	// Failed is closed when the Peer is broken; Err then returns why. The errors wrap ErrPeerGone, ErrPeerClosed,
	// ErrClosed or ErrBounds.
	Failed() <-chan struct{}
	Err() error
	// Close says goodbye and frees this half. Puts that are not flushed may be lost.
	Close() error
}

// RemoteRegion is a peer's memory, as one Peer addresses it.
type RemoteRegion interface {
	Size() int64
}

// NumImmediates is the number of counters of a Peer.
const NumImmediates = 1 << 12
