package onesided

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/kernels"
)

// The parameters of the kernels: kernels/onesided/onesided.cuh.
type (
	putArgs struct {
		_                           uint64 // the ticket
		dst, src, bytes, word, sent uint64
	}
	awaited struct {
		word, used  uint64
		count, peer uint32
	}
	waitArgs struct {
		_            uint64 // the ticket
		abort, count uint64
		awaited      [mostAwaited]awaited
	}
)

const (
	mostAwaited = 64
	putThreads  = 512
	sentBytes   = 16 // Sent

	// kernelBytes is the size up to which the kernel copies, with one block: 8 vectors for each thread. Larger data are
	// left to the copy engine, which costs one more node.
	kernelBytes = 8 * 16 * putThreads

	// mostStreams is the number of streams whose operations are counted in memory; further ones are marked by events.
	mostStreams = 64
)

// onGPU is Signals of a GPU. Its operations are kernels, and large copies by the copy engine before them. They are
// ordered by their stream only. An order for each stream, which adds nothing to the stream's own, shows when they have
// ended.
type onGPU struct {
	*counters
	cfg       Config
	dev       *cuda.Device
	module    *cuda.Module
	put, wait *cuda.Function

	mu     sync.Mutex
	orders map[uintptr]*cuda.Order // by stream
	words  int                     // of orders, in use
}

// NewGPU makes the half of a rank on a GPU. The kernels of all ranks can address the memory of all ranks.
func NewGPU(cfg Config) (Signals, error) {
	g := &onGPU{cfg: cfg, dev: cfg.Device.(*cuda.Device), orders: make(map[uintptr]*cuda.Order)}
	var err error
	if g.module, err = launcher.Load(g.dev, "onesided"); err != nil {
		return nil, err
	}
	if g.put, err = g.module.Function(kernels.Entry("put_signal")); err == nil {
		g.wait, err = g.module.Function(kernels.Entry("wait_signal"))
	}
	if err == nil {
		extra := int64(cfg.Size)*Slots*(8+sentBytes) + mostStreams*8
		g.counters, err = newCounters(&cfg, extra, func(a device.Allocation) error {
			return g.dev.CopyIn(a.Ptr(), make([]byte, a.Size()))
		})
	}
	if err != nil {
		return nil, errors.Join(err, g.module.Close())
	}
	return g, nil
}

// used is the word of the signals that this rank's waits have used up.
func (g *onGPU) used(t Target) device.Ptr {
	return g.own.Ptr().Add(int64(g.cfg.Size*Slots+t.Peer*Slots+t.Slot) * 8)
}

// sent is this rank's side of a counter at a peer, or 0 if additions reach it.
func (g *onGPU) sent(t Target) device.Ptr {
	if g.cfg.Atomics {
		return 0
	}
	return g.own.Ptr().Add(int64(2*g.cfg.Size*Slots)*8 + int64(t.Peer*Slots+t.Slot)*sentBytes)
}

func (g *onGPU) Put(s device.Stream, dst, src device.Ptr, size int64, t Target) error {
	cs, err := g.stream(s)
	if err != nil {
		return err
	}
	if size > kernelBytes {
		if err := cs.Copy(dst, src, size); err != nil {
			return err
		}
		size = 0
	}
	a := putArgs{dst: uint64(dst), src: uint64(src), bytes: uint64(size), word: uint64(g.toPeer(t)),
		sent: uint64(g.sent(t))}
	return g.launch(cs, g.put, int(min(putThreads, max(32, (size/16+31)&^31))), launcher.Raw(&a))
}

func (g *onGPU) Signal(s device.Stream, t Target) error { return g.Put(s, 0, 0, 0, t) }

func (g *onGPU) Wait(s device.Stream, waits []Wait) error {
	cs, err := g.stream(s)
	if err != nil {
		return err
	}
	for len(waits) > 0 {
		n := min(len(waits), mostAwaited)
		a := waitArgs{abort: uint64(g.cfg.AbortBlock), count: uint64(n)}
		for i, w := range waits[:n] {
			a.awaited[i] = awaited{uint64(g.fromPeer(w.Target)), uint64(g.used(w.Target)), uint32(w.Count), uint32(w.Peer)}
		}
		if err := g.launch(cs, g.wait, (n+31)&^31, launcher.Raw(&a)); err != nil {
			return err
		}
		waits = waits[n:]
	}
	return nil
}

func (g *onGPU) stream(s device.Stream) (*cuda.Stream, error) {
	cs, ok := s.(*cuda.Stream)
	if !ok || cs.Device().ID() != g.dev.ID() {
		return nil, fmt.Errorf("%w: the stream is of %v, not of %v", collective.ErrInvalidArgument, s.Device().ID(),
			g.dev.ID())
	}
	return cs, g.await()
}

// launch runs one block.
func (g *onGPU) launch(s *cuda.Stream, f *cuda.Function, threads int, params []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.orders[s.Raw()]
	if o == nil {
		var word device.Ptr
		if g.words < mostStreams {
			word = g.own.Ptr().Add(int64(g.cfg.Size)*Slots*(16+sentBytes) + int64(g.words)*8)
			g.words++
		}
		var err error
		if o, err = g.dev.NewOrder(word, cuda.UnorderedCaptures); err != nil {
			return err
		}
		g.orders[s.Raw()] = o
	}
	cfg := cuda.Launch1D(1, threads, 0)
	return s.LaunchInOrder(f, &cfg, params, o)
}

// Drain waits for one stream after the other, without the lock: later operations may be enqueued meanwhile.
func (g *onGPU) Drain(ctx context.Context) error {
	g.mu.Lock()
	orders := make([]*cuda.Order, 0, len(g.orders))
	for _, o := range g.orders {
		orders = append(orders, o)
	}
	g.mu.Unlock()
	for _, o := range orders {
		if err := o.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *onGPU) Close() error {
	var errs []error
	for _, o := range g.orders {
		errs = append(errs, o.Close())
	}
	return errors.Join(append(errs, g.module.Close(), g.own.Close())...)
}

// The layouts of the kernels.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(putArgs{})-48]
	_ = [1]struct{}{}[unsafe.Sizeof(waitArgs{})-24-24*mostAwaited]
)
