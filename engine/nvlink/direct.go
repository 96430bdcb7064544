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
	gather *cuda.Function
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
	k.gather = find("all_gather_direct")
	k.loaded = err == nil
	return err
}

// bulk reports whether kernels move data by bulk copies.
func (e *Engine) bulk() bool { return e.dev.Properties().Major >= 9 }

// directKernel returns the kernel that runs r, or nil: the same on all ranks.
func (e *Engine) directKernel(r *collective.Request) *cuda.Function {
	job := 0
	switch {
	case e.buffers == nil || r.Bytes()&15 != 0 || r.Collective == collective.Reduce:
		return nil
	case r.Collective == collective.AllGather:
		return e.directKernels.gather
	case r.Op != datatype.Sum && r.Op != datatype.Avg:
		return nil
	case r.Collective == collective.ReduceScatter:
		job = 1
	}
	return e.directKernels.reduce[job][r.Type]
}

// direct runs an all-reduce, a reduce-scatter or an all-gather. Its blocks take whole SMs, so it does not wait there
// for the launch before.
func (e *Engine) direct(r *collective.Request, s *cuda.Stream, v variant) error {
	a := e.directArgs
	a.operands(r)
	a.bytes, a.sendStride, a.recvStride = uint64(r.Bytes()), uint64(r.Bytes()), uint64(r.Bytes())
	in, out := r.Bytes(), r.Bytes()
	switch r.Collective {
	case collective.AllReduce:
		a.sendStride = uint64(sliceOf(r.Bytes(), int64(e.size)))
	case collective.ReduceScatter:
		in, out = in*int64(e.size), 0
	default:
		in, out = 0, out*int64(e.size)
	}
	if err := e.need(pieceStreams, e.everyRank()); err != nil {
		return err
	}
	if err := e.place(r, s, in, out); err != nil {
		return err
	}
	blocks := e.call.channels(int64(a.sendStride), int64(v.threads), e.ringBlocks)
	cfg := cuda.Launch1D(int(blocks), ringFewThreads, 0)
	if e.bulk() {
		cfg.Shared = directShared
	}
	return s.LaunchInOrder(e.directKernel(r), &cfg, launcher.Raw(a), e.launcher.Order)
}

// place fills the addresses of the buffers of a launch, of `in` and `out` bytes, one of which may be 0: the kernel is
// told the other one twice.
func (e *Engine) place(r *collective.Request, s *cuda.Stream, in, out int64) error {
	a := e.directArgs
	known := func(at func(p device.Ptr, n int64, to []uint64) bool) bool {
		sends := in == 0 || at(r.Send, in, a.in[:e.size])
		return (out == 0 || at(r.Recv, out, a.out[:e.size])) && sends
	}
	mapped := false
	if (a.send|a.recv)&15 == 0 {
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
	switch {
	case !mapped:
		a.in, a.out = [maxRanks]uint64{}, [maxRanks]uint64{}
	case in == 0:
		a.in = a.out
	case out == 0:
		a.out = a.in
	}
	return nil
}
