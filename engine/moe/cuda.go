package moe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/kernels"
)

const (
	// The state: the ticket of the order of these kernels, then a kindState for each kind, and the replicas.
	stateTicket   = 128
	stateReplicas = 4096
	stateBytes    = stateReplicas + 4*MaxRanks*MaxExperts

	workThreads = 512
	reportEvery = 50 * time.Millisecond
)

// cudaEngine launches the kernels of kernels/moe. Nothing here waits for the GPU or for a peer, and all that changes
// from launch to launch is in device memory, so that graphs can replay the launches.
type cudaEngine struct {
	b        *Buffer
	dev      *cuda.Device
	launcher *launcher.Launcher
	moved    struct{ notify, dispatch, rows, experts, quantize, count *cuda.Function }
	staged   staging // nothing unless the setting MoEStages is on
	blocks   int     // that are resident together, at most
	alone    bool    // no rank shares the GPU

	seq  atomic.Uint64 // of the latest operation
	name atomic.Pointer[string]
}

// openCUDA sets b.engine before the goroutine begins that reads it.
func openCUDA(ctx context.Context, b *Buffer) error {
	e := &cudaEngine{b: b, dev: b.cfg.Device.(*cuda.Device)}
	if err := e.open(ctx); err != nil {
		return errors.Join(err, e.launcher.Free())
	}
	b.engine = e
	e.launcher.Watch(reportEvery, func() bool {
		_ = b.Err()
		return true // SetMask may end the failure
	})
	return nil
}

func (e *cudaEngine) open(ctx context.Context) error {
	p := e.dev.Properties()
	sharing, err := bootstrap.MostAlike(ctx, e.b.cfg.Bootstrap, p.BusID)
	if err != nil {
		return err
	}
	// Blocks of different ranks wait for each other, so all must be resident at once.
	e.blocks, e.alone = p.SMs/sharing, sharing == 1
	if e.blocks < max(2, e.b.size) {
		return fmt.Errorf("%w: %d ranks share a GPU of %d SMs", collective.ErrUnsupported, sharing, p.SMs)
	}
	e.launcher, err = launcher.New(e.dev, launcher.Config{State: stateBytes, Order: e.b.cfg.Order,
		Limit: e.b.cfg.OpTimeout})
	if err != nil {
		return err
	}
	module, err := launcher.Load(e.dev, "moe")
	if err != nil {
		return err
	}
	for _, k := range []struct {
		f    **cuda.Function
		name string
	}{{&e.moved.notify, "notify"}, {&e.moved.dispatch, "dispatch"}, {&e.moved.rows, "combine_rows"},
		{&e.moved.experts, "combine_experts"}, {&e.moved.quantize, "quantize"}, {&e.moved.count, "count"}} {
		if *k.f, err = module.Function(kernels.Entry("moe_" + k.name)); err != nil {
			return err
		}
	}
	if e.b.cfg.Environment().MoEStages {
		return e.staged.open(module, p)
	}
	return nil
}

// launch enqueues a kernel behind the communicator's work.
func (e *cudaEngine) launch(op string, seq uint64, s device.Stream, f *cuda.Function, blocks, threads int,
	params []byte) error {
	stream, ok := s.(*cuda.Stream)
	if !ok {
		return e.b.error(op, seq, -1, fmt.Errorf("%w: the stream is none of a GPU", collective.ErrInvalidArgument))
	}
	if seq != 0 {
		e.seq.Store(seq)
		e.name.Store(&op)
	}
	cfg := cuda.Launch1D(blocks, threads, e.staged.shared(f))
	if e.alone && e.dev.Properties().Major >= 9 {
		cfg.Flags |= cuda.LaunchOverlapPrevious
	}
	if err := stream.LaunchInOrder(f, &cfg, params, e.launcher.Order); err != nil {
		return e.b.error(op, seq, -1, err)
	}
	return nil
}

// The share of the blocks that send packets, measured on four H100 (bench/results/2026-11-26-4xH100-627cbe5).
const packetSenders = 3. / 8

// Of n ranks' plain rows, (n-1)/n are sent, and all are received or added. The factors weigh the two. Nine blocks fill
// the links, and more take longer. Measured on two H200 with the traffic of two and of four ranks
// (bench/results/2026-11-30-2xH200-b22919ef).
const (
	dispatchSenders = 1.05
	combineSenders  = 1.3
	fullSenders     = 9
)

// The share of the blocks of a dispatch in the layout ZeroCopy that take what rows have behind their elements, and the
// number of senders that fill the links if no own rows are stored: more take longer. More than settlersMost settlers
// for each sender take nothing off, and SMs from the model. Measured as the constants above
// (bench/results/2026-11-30-2xH200-adcea3da).
const settlers, settlersMost, zeroCopySenders = 1. / 8, 0.6, 7.7

// shared returns the blocks of a kernel, and how many of them send.
func (e *cudaEngine) shared(wanted int, packets bool, factor float64) (blocks, senders int) {
	switch {
	case wanted != 0:
	case e.b.cfg.Blocks != 0:
		wanted = e.b.cfg.Blocks
	case packets:
		wanted = DefaultPacketBlocks
	default:
		wanted = DefaultBlocks
	}
	blocks = min(wanted, e.blocks)
	senders = int(packetSenders * float64(blocks))
	if !packets {
		share := factor * float64(e.b.size-1) / float64(2*e.b.size-1)
		senders = min(int(math.Round(share*float64(blocks))), max(senders, fullSenders))
	}
	return blocks, max(1, senders)
}

func (e *cudaEngine) notify(seq uint64, a *NotifyArgs) error {
	ar := &e.b.arena
	k := notifyArgs{headArgs: e.head(&a.Handle, kindNotify), notes: region{uint64(ar.note(0, 0)), uint64(ar.noteStride())},
		parityStride: uint64(ar.note(1, 0) - ar.note(0, 0)), index: uint64(a.TopKIndex), inRank: uint64(a.InRank),
		expertCounts: uint64(a.Counts), signature: a.signature(kindNotify, 0)}
	return e.launch("moe_notify", seq, a.Stream, e.moved.notify, e.b.size, workThreads, launcher.Raw(&k))
}

func (e *cudaEngine) dispatch(seq uint64, a *DispatchArgs) error {
	r, groups := a.row(a.sent(), a.Lists), 0
	if r.scales > 0 {
		groups = scalesOf(a.Hidden)
	}
	row := e.row(r, kindDispatch)
	blocks, senders := e.shared(a.Blocks, a.Tokens <= int(row.packets), dispatchSenders)
	if a.Layout == ZeroCopy && a.Tokens > int(row.packets) {
		fills := zeroCopySenders * float64(e.b.size) / float64(max(1, e.b.size-1))
		blocks = min(blocks, int(math.Round(fills*(1+settlersMost))))
		senders = min(blocks-max(1, int(math.Round(settlers*float64(blocks)))), int(math.Round(fills)))
	}
	k := dispatchArgs{headArgs: e.head(&a.Handle, kindDispatch), row: row, x: uint64(a.X),
		scales: uint64(a.Scales), xStride: uint64(r.data), scaleStride: uint64(groups) * 4, index: uint64(a.Index),
		weights: uint64(a.Weights), recvX: uint64(a.RecvX), recvScales: uint64(a.RecvScales),
		recvIndex: uint64(a.RecvIndex), recvWeights: uint64(a.RecvWeights), recvSource: uint64(a.RecvSource),
		recvRows: uint64(a.RecvRows), groups: uint32(groups), senders: uint32(senders)}
	if a.Quantize && a.Tokens > 0 {
		// This rank's rows never travel, so their place in its arena is free for the quantised rows.
		own := e.b.memory.Ptr[e.b.rank].Add(e.b.arena.rows(kindDispatch, e.b.rank))
		q := quantizeArgs{x: uint64(a.X), out: uint64(own), stride: uint64(r.slot()), tokens: uint32(a.Tokens),
			groups: uint32(groups)}
		if a.PowerOfTwo {
			q.powerOfTwo = 1
		}
		n := min(4*blocks, (a.Tokens*groups+15)/16)
		if err := e.launch("moe_dispatch", seq, a.Stream, e.moved.quantize, n, workThreads, launcher.Raw(&q)); err != nil {
			return err
		}
		k.x, k.scales, k.xStride, k.scaleStride = uint64(own), uint64(own)+uint64(r.data), q.stride, q.stride
	}
	f := e.staged.kernel(e.moved.dispatch, e.staged.dispatch, &k.row, a.Tokens)
	return e.launch("moe_dispatch", seq, a.Stream, f, blocks, workThreads, launcher.Raw(&k))
}

func (e *cudaEngine) combine(seq uint64, a *CombineArgs) error {
	row := e.row(a.returned(), kindCombine)
	blocks, senders := e.shared(a.Blocks, a.Tokens <= int(row.packets), combineSenders)
	if a.Layout == ZeroCopy {
		senders = 0
	}
	k := combineArgs{headArgs: e.head(&a.Handle, kindCombine), row: row, x: uint64(a.X),
		rows: uint64(a.Rows), weights: uint64(a.Weights), bias: [2]uint64{uint64(a.Bias[0]), uint64(a.Bias[1])},
		out: uint64(a.Out), outWeights: uint64(a.OutWeights),
		weightWords: region{uint64(e.b.arena.weights(0)), uint64(e.b.arena.weightStride())}, hidden: uint32(a.Hidden),
		senders: uint32(senders)}
	f := e.moved.experts
	if a.Layout != Experts {
		f = e.staged.kernel(e.moved.rows, e.staged.rows, &k.row, a.Tokens)
	}
	return e.launch("moe_combine", seq, a.Stream, f, blocks, workThreads, launcher.Raw(&k))
}

func (e *cudaEngine) count(a *CountArgs) error {
	k := countArgs{index: uint64(a.TopKIndex), ranks: uint64(a.Ranks), experts: uint64(a.ExpertCounts),
		inRank: uint64(a.InRank), state: e.state(kindNotify), replicas: e.replicas(),
		tokens: uint32(a.Tokens), topK: uint32(a.TopK), nranks: uint32(e.b.size), local: uint32(a.local(e.b.size))}
	return e.launch("moe_count", 0, a.Stream, e.moved.count, 1, workThreads, launcher.Raw(&k))
}
