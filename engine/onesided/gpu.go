package onesided

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
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
		abort, mark, copies         uint64
		peer, _                     uint32
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

	// blockBytes is the size up to which one block copies: 8 vectors for each thread. Up to clusterBytes a cluster
	// does, where there are clusters. Larger data are left to the copy engine, which leaves the multiprocessors free,
	// but takes microseconds to follow a kernel, and a kernel to follow it. A cluster copies besideBytes meanwhile.
	blockBytes    = 8 * 16 * putThreads
	clusterBlocks = 8 // the portable limit: every GPU with clusters supports 8
	clusterBytes  = 4 << 20
	besideBytes   = 3 << 20

	// mostStreams is the number of streams with words in memory. Other streams record events and have no side stream.
	mostStreams = 64
)

// onGPU is Signals of a GPU: kernels, and large copies by the copy engine, ordered by their stream only.
type onGPU struct {
	*counters
	cfg       Config
	dev       *cuda.Device
	put, wait *cuda.Function

	mu      sync.Mutex
	streams map[uintptr]*onStream
}

// onStream is the state of a caller's stream.
type onStream struct {
	order  *cuda.Order // shows when the operations have ended; adds nothing to the stream's order
	side   *cuda.Side  // for copies beside kernels; nil before the first
	mark   device.Ptr  // the word that the side stream sets to the number of copies that have ended; 0: no such copies
	copies uint64      // so far, outside of graphs
}

// NewGPU makes the half of a rank on a GPU. The kernels of all ranks can address the memory of all ranks.
func NewGPU(cfg Config) (Signals, error) {
	g := &onGPU{cfg: cfg, dev: cfg.Device.(*cuda.Device), streams: make(map[uintptr]*onStream)}
	module, err := launcher.Load(g.dev, "onesided")
	if err != nil {
		return nil, err
	}
	if g.put, err = module.Function(kernels.Entry("put_signal")); err != nil {
		return nil, err
	}
	if g.wait, err = module.Function(kernels.Entry("wait_signal")); err != nil {
		return nil, err
	}
	if g.counters, err = newCounters(&cfg, g.all()*(8+sentBytes)+mostStreams*16); err != nil {
		return nil, err
	}
	return g, nil
}

// all is the number of counters. The window begins with their words; this rank's private words follow: for each counter
// the signals that waits have used up, its Sent, and two words for each stream.
func (g *onGPU) all() int64 { return int64(g.cfg.Size) * Slots }

func (t Target) index() int64 { return int64(t.Peer)*Slots + int64(t.Slot) }

// Put signals by a kernel, which copies what the copy engine does not. For large data:
//
//  1. Fork a side stream.
//  2. The copy engine copies most of the data there, and the side stream then sets the mark.
//  3. The kernel copies the rest, waits for the mark and signals.
//
// The copy is enqueued before the kernel that waits for it, so it needs no queue that the kernel holds. Launches of a
// graph would all set the same mark: there the kernel only copies, the side stream joins it, and a second one signals.
// Without a side stream the copy is ahead of the kernel.
func (g *onGPU) Put(s device.Stream, dst, src device.Ptr, size int64, t Target) error {
	return g.enqueue(s, func(s *cuda.Stream, x *onStream) error {
		a := putArgs{dst: uint64(dst), src: uint64(src), bytes: uint64(size), word: uint64(g.toPeer(t)),
			abort: uint64(g.cfg.AbortBlock), peer: uint32(t.Peer)}
		if !g.cfg.Atomics {
			a.sent = uint64(g.own.Ptr().Add(2*g.all()*8 + t.index()*sentBytes))
		}
		if size > clusterBytes || size > blockBytes && !g.dev.Properties().Clusters {
			if done, err := g.putBeside(s, x, a); done || err != nil {
				return err
			}
			if err := s.Copy(dst, src, size); err != nil {
				return err
			}
			a.bytes = 0
		}
		return g.launch(s, x, a)
	})
}

func (g *onGPU) launch(s *cuda.Stream, x *onStream, a putArgs) error {
	cfg := cuda.Launch1D(1, int(min(putThreads, max(32, (a.bytes/16+31)&^31))), 0)
	if a.bytes > blockBytes {
		cfg = cuda.Launch1D(clusterBlocks, putThreads, 0)
		cfg.Cluster = cfg.Grid
	}
	return s.LaunchInOrder(g.put, &cfg, launcher.Raw(&a), x.order)
}

// putBeside reports whether s has a side stream. After an error s follows it all the same, and a capture stays whole.
func (g *onGPU) putBeside(s *cuda.Stream, x *onStream, a putArgs) (done bool, err error) {
	if x.mark == 0 {
		return false, nil
	}
	if x.side == nil {
		if x.side, err = g.dev.NewSide(); err != nil {
			return false, err
		}
	}
	if ok, err := x.side.Fork(s); !ok || err != nil {
		return false, err
	}
	side, err := x.side.Begin()
	if err != nil {
		return false, err
	}
	status, _, err := side.CaptureStatus()
	eager, signal := status == cuda.CaptureNone, a
	err = errors.Join(err, side.Copy(device.Ptr(a.dst+besideBytes), device.Ptr(a.src+besideBytes),
		int64(a.bytes-besideBytes)))
	a.bytes, signal.bytes = besideBytes, 0
	if eager {
		x.copies++
		a.mark, a.copies = uint64(x.mark), x.copies
		err = errors.Join(err, side.WriteValue64(x.mark, x.copies))
	} else {
		a.word = 0
	}
	if err == nil {
		err = g.launch(s, x, a)
	}
	if err == nil && eager {
		return true, nil
	}
	if err = errors.Join(err, x.side.Join(s)); err == nil {
		err = g.launch(s, x, signal)
	}
	return true, err
}

func (g *onGPU) Wait(s device.Stream, waits []Wait) error {
	return g.enqueue(s, func(s *cuda.Stream, x *onStream) error {
		for len(waits) > 0 {
			n := min(len(waits), mostAwaited)
			a := waitArgs{abort: uint64(g.cfg.AbortBlock), count: uint64(n)}
			for i, w := range waits[:n] {
				used := g.own.Ptr().Add((g.all() + w.index()) * 8)
				a.awaited[i] = awaited{uint64(g.fromPeer(w.Target)), uint64(used), uint32(w.Count), uint32(w.Peer)}
			}
			cfg := cuda.Launch1D(1, (n+31)&^31, 0)
			if err := s.LaunchInOrder(g.wait, &cfg, launcher.Raw(&a), x.order); err != nil {
				return err
			}
			waits = waits[n:]
		}
		return nil
	})
}

// enqueue calls f with the state of s, made at its first use, which f has for itself.
func (g *onGPU) enqueue(s device.Stream, f func(*cuda.Stream, *onStream) error) error {
	cs, ok := s.(*cuda.Stream)
	if !ok || cs.Device().ID() != g.dev.ID() {
		return fmt.Errorf("%w: the stream is of %v, not of %v", collective.ErrInvalidArgument, s.Device().ID(), g.dev.ID())
	}
	if err := g.await(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.streams[cs.Raw()]
	if x == nil {
		var word device.Ptr
		x = new(onStream)
		if n := len(g.streams); n < mostStreams {
			word = g.own.Ptr().Add(g.all()*(2*8+sentBytes) + int64(n)*16)
			if g.cfg.Beside && g.dev.Properties().StreamMemOps {
				x.mark = word.Add(8)
			}
		}
		var err error
		if x.order, err = g.dev.NewOrder(word, cuda.UnorderedCaptures); err != nil {
			return err
		}
		g.streams[cs.Raw()] = x
	}
	return f(cs, x)
}

// Drain waits for one stream after the other, without the lock: later operations may be enqueued meanwhile.
func (g *onGPU) Drain(ctx context.Context) error {
	g.mu.Lock()
	streams := make([]onStream, 0, len(g.streams))
	for _, x := range g.streams {
		streams = append(streams, *x)
	}
	g.mu.Unlock()
	for _, x := range streams {
		if err := g.ended(ctx, &x); err != nil {
			return err
		}
	}
	return nil
}

// ended waits for the operations of a stream, and for the copies beside kernels: after an abort kernels do not.
func (g *onGPU) ended(ctx context.Context, x *onStream) error {
	err := x.order.Wait(ctx)
	for word := [8]byte{}; err == nil && x.copies > 0; time.Sleep(time.Millisecond) {
		err = g.dev.CopyOut(word[:], x.mark)
		if int64(binary.NativeEndian.Uint64(word[:])-x.copies) >= 0 {
			return err
		}
		if over := context.Cause(ctx); over != nil {
			return errors.Join(err, fmt.Errorf("a copy to a peer has not ended: %w", over))
		}
	}
	return err
}

func (g *onGPU) Close() error {
	var errs []error
	for _, x := range g.streams {
		if errs = append(errs, x.order.Close()); x.side != nil {
			errs = append(errs, x.side.Close())
		}
	}
	return errors.Join(append(errs, g.own.Close())...)
}

// The layouts of the kernels.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(putArgs{})-80]
	_ = [1]struct{}{}[unsafe.Sizeof(waitArgs{})-24-24*mostAwaited]
)
