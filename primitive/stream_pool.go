package primitive

import (
	"fmt"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/transport/ipc"
)

// maxStreams is the number of copy streams of a Context on one GPU. Further connections share streams, and their copies
// run one after the other. No operation on these streams waits for a peer, so sharing cannot cause a deadlock.
const maxStreams = 32

// streamPool holds the copy streams of one GPU.
type streamPool struct {
	streams []ipc.WordStream
	next    int
	adder   *signalKernel
}

// stream returns a copy stream of dev for one more connection.
func (c *Context) stream(dev device.Device) (ipc.WordStream, ipc.Adder, error) {
	d, ok := dev.(*cuda.Device)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %s has no streams with ordered stores", ErrUnsupported, dev.ID())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	p := c.streams[dev]
	if p == nil {
		m, err := launcher.Load(d, "primitive") // now: at the first addition, kernels may wait for a peer
		if err != nil {
			return nil, nil, err
		}
		f, err := m.Function("goccl_signal_add")
		if err != nil {
			return nil, nil, err
		}
		p = &streamPool{adder: &signalKernel{fn: f}}
		c.streams[dev] = p
	}
	if len(p.streams) < maxStreams {
		s, err := d.NewStream()
		if err != nil {
			return nil, nil, err
		}
		p.streams = append(p.streams, s.(ipc.WordStream))
		return s.(ipc.WordStream), p.adder, nil
	}
	p.next = (p.next + 1) % maxStreams
	return p.streams[p.next], p.adder, nil
}

// signalKernel adds to words by the kernel goccl_signal_add.
type signalKernel struct {
	fn *cuda.Function

	mu   sync.Mutex
	args cuda.Args
}

// Add launches one thread that adds delta to the word at addr with release semantics at system scope.
func (k *signalKernel) Add(s device.Stream, addr device.Ptr, delta uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.(*cuda.Stream).Launch(k.fn, cuda.Launch1D(1, 1, 0), k.args.Reset().Ptr(addr).Uint64(delta))
}

// checkPeerAccess rejects GPUs without peer access. It takes another process's device ordinals for this process's: both
// see the same GPUs unless CUDA_VISIBLE_DEVICES differs, and then the import fails with the driver's error.
func checkPeerAccess(local, remote device.ID) error {
	n, err := cuda.Count()
	if err != nil {
		return err
	}
	if local.Index == remote.Index || remote.Index >= n {
		return nil
	}
	ok, err := cuda.CanAccessPeer(local.Index, remote.Index)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: GPU %d cannot access GPU %d: there is neither NVLink nor a common PCIe switch, or "+
			"ACS/IOMMU forbids it; use ethernet",
			ErrUnsupported, local.Index, remote.Index)
	}
	return nil
}
