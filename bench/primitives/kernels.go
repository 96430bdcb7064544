package main

import (
	"fmt"

	"github.com/goccl/goccl/device"
)

// kernels runs what is measured, on one rank. Times are seconds. Ping-pongs run on both ranks of a pair, and the time is that of all round trips.
type kernels interface {
	// signal sends signals there and back over the memory channel; first begins.
	signal(peer int, first bool, iterations int, relaxed bool) (float64, error)
	// packet sends bytes as LL16 packets.
	packet(peer int, first bool, bytes int64, iterations int) (float64, error)
	// port puts bytes with a signal, through the proxies.
	port(peer int, first bool, bytes int64, iterations int) (float64, error)

	// uploadLarge makes the large channels known.
	uploadLarge() error
	// put moves bytes from the source to the peer's target that many times, after as many untimed puts as bring the ranks together.
	put(peer int, bytes int64, s shape, times int) (float64, error)
	// portPut is put through the proxy.
	portPut(peer int, bytes int64, times int) (float64, error)
	// pushAll moves bytes to each peer, that many times, as put does.
	pushAll(bytes int64, s shape, times int) (float64, error)
	// putShapes and pushShapes are worth trying.
	putShapes() []shape
	pushShapes() []shape
	close() error
}

// shape is how a kernel is launched. A bulk copy has a thread per block and moves chunks through that many stages of shared memory.
type shape struct {
	blocks, threads int
	chunk, stages   int // 0: plain stores
}

func (s shape) bulk() bool { return s.chunk > 0 }

func (s shape) String() string {
	if s.bulk() {
		return fmt.Sprintf("bulk copies, %d blocks, %d chunks of %d KiB", s.blocks, s.stages, s.chunk>>10)
	}
	return fmt.Sprintf("stores, %d blocks of %d threads", s.blocks, s.threads)
}

func newKernels(r *rank) (kernels, error) {
	if r.dev.ID().Kind == device.Host {
		return &hostKernels{mesh: r.mesh}, nil
	}
	return newGPUKernels(r)
}
