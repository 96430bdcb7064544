package nvlink

import (
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/kernels"
)

// Constants of kernels/collective/direct.cuh.
const (
	directLine      = 128
	directShared    = 192 << 10
	directPullBytes = 32 << 10
)

const (
	directBlocks  = 32 // at most
	directDefault = 8  // beside models: more blocks are no faster alone, and take SMs from the model
	directInstead = 32 // channels of the ring where direct cannot run a request
	directOrdered = 16 // in place of a ring that may not run a request: the widest of the tables

	// captureWait is how long a captured call waits for peers to map its buffers. The graph keeps their addresses.
	captureWait = 200 * time.Millisecond
)

// directArgs are the parameters of the kernels that run large messages in the users' buffers, where all ranks have
// mapped them (share.Buffers): by rank, the address there of this rank's send and receive buffer.
type directArgs struct {
	collectiveArgs
	in, out [maxRanks]uint64
}

// directBytes is the size of the lines by which ranks meet: one for each block and peer.
func directBytes(n int) int64 { return directBlocks * int64(n) * directLine }

// directPiece is what a piece has of a slice where buffers are not mapped: inputs and results of all slices share the
// place of the ring's FIFOs.
func directPiece(n int) int64 { return ringRegion / (2 * int64(n)) &^ (directPullBytes - 1) }

// directKernels are loaded when a table or GOCCL_ALGO names them.
type directKernels struct {
	loaded bool
	reduce [2][datatype.NumTypes]*cuda.Function // all-reduce, reduce-scatter
	move   *cuda.Function
}

// loadDirect loads the kernels if they are not loaded.
func (e *Engine) loadDirect() error {
	k := &e.directKernels
	if k.loaded {
		return nil
	}
	m, err := launcher.Load(e.dev, "direct")
	if err != nil {
		return err
	}
	find := func(name string) (f *cuda.Function) {
		if err == nil {
			f, err = m.Function(kernels.Entry(name))
		}
		if err == nil && e.bulk() {
			err = f.SetMaxDynamicShared(directShared)
		}
		return f
	}
	for job, prefix := range []string{"all_reduce_direct_", "reduce_scatter_direct_"} {
		for _, t := range []datatype.Type{datatype.Float32, datatype.Float16, datatype.Bfloat16} {
			k.reduce[job][t] = find(prefix + typeNames[t])
		}
	}
	k.move = find("move_direct")
	k.loaded = err == nil
	return err
}

// bulk reports whether kernels move data by bulk copies.
func (e *Engine) bulk() bool { return e.dev.Properties().Major >= 9 }

// directKernel returns the kernel that runs r, or nil: the same on all ranks. A root stores a broadcast to one peer
// only: to several, it would send the same data as often.
func (e *Engine) directKernel(r *collective.Request) *cuda.Function {
	if e.buffers == nil {
		return nil
	}
	switch r.Collective {
	case collective.AllGather, collective.AllToAll, collective.Gather, collective.Scatter:
		return e.directKernels.move
	case collective.Broadcast:
		if e.size == 2 {
			return e.directKernels.move
		}
	case collective.AllReduce, collective.ReduceScatter:
		if r.Op == datatype.Sum || r.Op == datatype.Avg {
			return e.directKernels.reduce[btoi(r.Collective == collective.ReduceScatter)][r.Type]
		}
	}
	return nil
}

// direct runs a request that has a directKernel. Its blocks take whole SMs, so it does not wait there for the launch
// before.
func (e *Engine) direct(r *collective.Request, s *cuda.Stream, v variant) error {
	a, bytes, all := e.directArgs, r.Bytes(), r.Bytes()*int64(e.size)
	a.operands(r)
	a.bytes, a.sendStride, a.recvStride, a.root = uint64(bytes), 0, 0, everyone
	slice, in, out := bytes, int64(0), int64(0)
	switch r.Collective {
	case collective.AllReduce:
		slice = sliceOf(bytes, int64(e.size))
		a.sendStride, in, out = uint64(slice), bytes, bytes
	case collective.ReduceScatter:
		a.sendStride, in = uint64(bytes), all
	case collective.AllGather:
		a.recvStride, out = uint64(bytes), all
	case collective.AllToAll:
		a.sendStride, a.recvStride, out = uint64(bytes), uint64(bytes), all
	case collective.Gather:
		a.recvStride, a.root = uint64(bytes), uint32(r.Root)
		if out = all; e.rank != r.Root {
			a.recv, out = 0, 0
		}
	case collective.Scatter, collective.Broadcast:
		if a.root = uint32(r.Root); r.Collective == collective.Scatter {
			a.sendStride = uint64(bytes)
		}
		if e.rank != r.Root {
			a.send, out = 0, bytes
		}
	}
	if err := e.need(pieceStreams, e.everyRank()); err != nil {
		return err
	}
	if err := e.place(r, s, in, out); err != nil {
		return err
	}
	blocks := e.call.channels(slice, int64(v.threads), e.ringBlocks)
	cfg := cuda.Launch1D(int(blocks), ringFewThreads, 0)
	if e.bulk() {
		cfg.Shared = directShared
	}
	return s.LaunchInOrder(e.directKernel(r), &cfg, launcher.Raw(a), e.launcher.Order)
}

// unshared is told of a buffer that no peer uses.
const unshared = 1

// place fills the addresses of the buffers of a launch, of which peers use `in` and `out` bytes. It offers none to a
// launch that cannot run in place: one of them might be overwritten too early, or needs other than whole vectors.
func (e *Engine) place(r *collective.Request, s *cuda.Stream, in, out int64) error {
	a := e.directArgs
	for p := range e.size {
		a.in[p], a.out[p] = unshared, unshared
	}
	known := func(at func(p device.Ptr, n int64, to []uint64) bool) bool {
		sends := in == 0 || at(r.Send, in, a.in[:e.size])
		return (out == 0 || at(r.Recv, out, a.out[:e.size])) && sends
	}
	mapped := false
	if (a.send|a.recv|a.sendStride|a.recvStride)&15 == 0 && (r.Collective != collective.AllToAll || a.send != a.recv) {
		if mapped = known(e.buffers.At); !mapped {
			status, _, err := s.CaptureStatus()
			if err != nil {
				return err
			}
			mapped = status != cuda.CaptureNone && known(func(p device.Ptr, n int64, to []uint64) bool {
				return e.buffers.Await(p, n, to, captureWait)
			})
		}
	}
	if !mapped {
		a.in, a.out = [maxRanks]uint64{}, [maxRanks]uint64{}
	}
	return nil
}
