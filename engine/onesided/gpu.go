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
		_                    uint64 // the ticket
		abort, count, stores uint64
		awaited              [mostAwaited]awaited
	}
)

const (
	mostAwaited = 64
	putThreads  = 512
	sentBytes   = 16 // Sent

	// blockBytes is the size up to which one block copies: 8 vectors for each thread. Up to clusterBytes a cluster
	// does, where there are clusters. Larger data are left to the copy engine, which leaves the multiprocessors free,
	// but takes microseconds to follow a kernel, and a kernel to follow it.
	blockBytes    = 8 * 16 * putThreads
	clusterBlocks = 8 // the portable limit: every GPU with clusters supports 8
	clusterBytes  = 4 << 20

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
	put, wait *cuda.Function

	mu     sync.Mutex
	orders map[uintptr]*cuda.Order // by stream
	words  int                     // of orders, in use
	stores []stores                // by peer and slot
}

// stores are the signals of a counter that the copy engine's stream stores, without a kernel between two copies. They
// are all of one stream, the first that has such a signal: stores of two streams could arrive in the wrong order.
type stores struct{ stream, count uint64 }

// NewGPU makes the half of a rank on a GPU. The kernels of all ranks can address the memory of all ranks.
func NewGPU(cfg Config) (Signals, error) {
	g := &onGPU{cfg: cfg, dev: cfg.Device.(*cuda.Device), orders: make(map[uintptr]*cuda.Order),
		stores: make([]stores, cfg.Size*Slots)}
	module, err := launcher.Load(g.dev, "onesided")
	if err != nil {
		return nil, err
	}
	if g.put, err = module.Function(kernels.Entry("put_signal")); err == nil {
		g.wait, err = module.Function(kernels.Entry("wait_signal"))
	}
	if err == nil {
		extra := int64(cfg.Size)*Slots*(8+sentBytes) + mostStreams*8
		g.counters, err = newCounters(&cfg, 2, extra, func(a device.Allocation) error {
			return g.dev.CopyIn(a.Ptr(), make([]byte, a.Size()))
		})
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// perWord is the distance of the two words of a counter. The window begins with both words of every counter; this
// rank's private words follow: for each counter the signals that waits have used up, its Sent, and the words of orders.
func (g *onGPU) perWord() int64 { return int64(g.cfg.Size) * Slots }

func (t Target) index() int64 { return int64(t.Peer)*Slots + int64(t.Slot) }

// used is the word of the signals that this rank's waits have used up.
func (g *onGPU) used(t Target) device.Ptr { return g.own.Ptr().Add((2*g.perWord() + t.index()) * 8) }

// sent is this rank's side of a counter at a peer, or 0 if additions reach it.
func (g *onGPU) sent(t Target) device.Ptr {
	if g.cfg.Atomics {
		return 0
	}
	return g.own.Ptr().Add(3*g.perWord()*8 + t.index()*sentBytes)
}

// word returns the address of order i's word.
func (g *onGPU) word(i int) device.Ptr {
	return g.own.Ptr().Add(g.perWord()*(3*8+sentBytes) + int64(i)*8)
}

func (g *onGPU) Put(s device.Stream, dst, src device.Ptr, size int64, t Target) error {
	cs, err := g.stream(s)
	if err != nil {
		return err
	}
	blocks, threads, most := 1, int(min(putThreads, max(32, (size/16+31)&^31))), int64(blockBytes)
	if g.dev.Properties().Clusters {
		most = clusterBytes
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.order(cs)
	if err != nil {
		return err
	}
	switch {
	case size > most:
		if err := cs.Copy(dst, src, size); err != nil {
			return err
		}
		if done, err := g.store(cs, o, t); done || err != nil {
			return err
		}
		size, threads = 0, 32
	case size > blockBytes:
		blocks = clusterBlocks
	}
	a := putArgs{dst: uint64(dst), src: uint64(src), bytes: uint64(size), word: uint64(g.toPeer(t)),
		sent: uint64(g.sent(t))}
	cfg := cuda.Launch1D(blocks, threads, 0)
	if blocks > 1 {
		cfg.Cluster = cfg.Grid
	}
	return cs.LaunchInOrder(g.put, &cfg, launcher.Raw(&a), o)
}

// store signals without a kernel and reports whether it has: not in graphs, which repeat it, nor if another stream has
// stored signals of this counter.
func (g *onGPU) store(s *cuda.Stream, o *cuda.Order, t Target) (bool, error) {
	if !g.dev.Properties().StreamMemOps {
		return false, nil
	}
	if err := o.Enter(s); err != nil {
		return false, err
	}
	c, now := &g.stores[t.index()], o.Entered()
	if now == 0 || c.stream != 0 && c.stream != now {
		return false, nil
	}
	if err := s.WriteValue64(g.toPeer(t).Add(g.perWord()*8), c.count+1); err != nil {
		return false, err
	}
	c.stream = now
	c.count++
	return true, o.Leave(s)
}

func (g *onGPU) Signal(s device.Stream, t Target) error { return g.Put(s, 0, 0, 0, t) }

func (g *onGPU) Wait(s device.Stream, waits []Wait) error {
	cs, err := g.stream(s)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	o, err := g.order(cs)
	if err != nil {
		return err
	}
	for len(waits) > 0 {
		n := min(len(waits), mostAwaited)
		a := waitArgs{abort: uint64(g.cfg.AbortBlock), count: uint64(n), stores: uint64(g.perWord())}
		for i, w := range waits[:n] {
			a.awaited[i] = awaited{uint64(g.fromPeer(w.Target)), uint64(g.used(w.Target)), uint32(w.Count), uint32(w.Peer)}
		}
		cfg := cuda.Launch1D(1, (n+31)&^31, 0)
		if err := cs.LaunchInOrder(g.wait, &cfg, launcher.Raw(&a), o); err != nil {
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

// order returns the order of a stream, made at its first use. It requires mu.
func (g *onGPU) order(s *cuda.Stream) (*cuda.Order, error) {
	if o := g.orders[s.Raw()]; o != nil {
		return o, nil
	}
	var word device.Ptr
	if g.words < mostStreams {
		word = g.word(g.words)
		g.words++
	}
	o, err := g.dev.NewOrder(word, cuda.UnorderedCaptures)
	if err == nil {
		g.orders[s.Raw()] = o
	}
	return o, err
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
	return errors.Join(append(errs, g.own.Close())...)
}

// The layouts of the kernels.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(putArgs{})-48]
	_ = [1]struct{}{}[unsafe.Sizeof(waitArgs{})-32-24*mostAwaited]
)
