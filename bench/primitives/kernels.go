package main

import (
	"fmt"

	"github.com/goccl/goccl/device"
)

// kernels runs the measured operations on one rank. Times are in seconds. Ping-pongs run on both ranks of a pair; their
// time covers all round trips.
type kernels interface {
	// signal sends signals back and forth over the memory channel; first begins.
	signal(peer int, first bool, iterations int, relaxed bool) (float64, error)
	// packet sends bytes as LL16 packets.
	packet(peer int, first bool, bytes int64, iterations int) (float64, error)
	// port puts bytes with a signal, through the proxies.
	port(peer int, first bool, bytes int64, iterations int) (float64, error)

	// uploadLarge uploads the handles of the large channels.
	uploadLarge() error
	// put copies bytes from the source to the peer's target, times times, after untimed puts that synchronize the
	// ranks.
	put(peer int, bytes int64, s shape, times int) (float64, error)
	// portPut is put through the proxy.
	portPut(peer int, bytes int64, times int) (float64, error)
	// pushAll copies bytes to each peer, times times, like put.
	pushAll(bytes int64, s shape, times int) (float64, error)
	// putShapes and pushShapes list the shapes to try.
	putShapes() []shape
	pushShapes() []shape
	close() error
}

// shape is the launch configuration of a kernel. A bulk copy uses one thread per block and copies chunks through the
// given number of stages of shared memory.
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
