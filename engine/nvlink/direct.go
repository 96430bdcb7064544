package nvlink

import (
	"cmp"
	"errors"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/kernels"
)

const (
	directBlocks  = 32 // at most
	directDefault = 8  // beside models: more blocks are no faster alone, and take SMs from the model
	directInstead = 32 // channels of the ring where direct cannot run a request
	directOrdered = 16 // in place of a ring that may not run a request: the widest of the tables

	// captureWait is how long a captured call waits for peers to map its buffers. The graph keeps their addresses.
	captureWait = 200 * time.Millisecond
)

// directBytes is the size of the lines by which ranks meet: one for each block and peer.
func directBytes(n int) int64 { return directBlocks * int64(n) * directLine }

// directPiece is what a piece has of a slice where buffers are not mapped: inputs and results of all slices share the
// place of the ring's FIFOs.
func directPiece(n int) int64 { return ringRegion / (2 * int64(n)) &^ (directPullBytes - 1) }

// directKernels are loaded when a table or GOCCL_ALGO names them.
type directKernels struct {
	loaded bool
	sums   [2][datatype.NumTypes]*cuda.Function // all-reduce, reduce-scatter: sum and avg
	reduce [datatype.NumTypes]*cuda.Function    // the others, and reduce
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
			k.sums[job][t] = find(prefix + typeNames[t])
		}
	}
	for t := range k.reduce {
		k.reduce[t] = find("reduce_direct_" + typeNames[t])
	}
	k.move = find("move_direct")
	k.loaded = err == nil
	return err
}

// bulk reports whether kernels move data by bulk copies.
func (e *Engine) bulk() bool { return e.dev.Properties().Major >= 9 }

// directSums returns the kernel of r if it is one of the usual sums, of whole vectors, or nil: the same on all ranks.
func (e *Engine) directSums(r *collective.Request) *cuda.Function {
	scatters := r.Collective == collective.ReduceScatter
	if e.directKernel(r) == nil || !scatters && r.Collective != collective.AllReduce || r.Bytes()&15 != 0 ||
		r.Op != datatype.Sum && r.Op != datatype.Avg {
		return nil
	}
	return e.directKernels.sums[plain.Bit[int](scatters)][r.Type]
}

// directKernel returns a kernel that runs r, or nil: the same on all ranks. A root stores a broadcast to one peer only:
// to several, it would send the same data as often. Slices of a reduce-scatter must lie whole vectors apart.
func (e *Engine) directKernel(r *collective.Request) *cuda.Function {
	k := &e.directKernels
	switch {
	case e.buffers == nil || r.Collective == collective.Broadcast && e.size > 2 ||
		r.Collective == collective.ReduceScatter && r.Bytes()&15 != 0:
		return nil
	case movesOnly(r.Collective):
		return k.move
	}
	return k.reduce[r.Type]
}

// directByDefault reports whether a table's direct runs r: tables are measured with the usual sums and moves, and by
// bulk copies. An all-to-all in place would go through the windows.
func (e *Engine) directByDefault(r *collective.Request) bool {
	if e.gpu.Major < 9 || r.Collective == collective.AllToAll && r.Send == r.Recv {
		return false
	}
	if movesOnly(r.Collective) {
		return r.Bytes()&15 == 0
	}
	return e.directSums(r) != nil
}

// movesOnly reports whether c moves data, rather than to reduce it.
func movesOnly(c collective.Collective) bool {
	return c != collective.AllReduce && c != collective.ReduceScatter && c != collective.Reduce
}

// direct runs a request that has a directKernel. Its blocks take whole SMs, so it does not wait there for the launch
// before.
func (e *Engine) direct(r *collective.Request, s *cuda.Stream, v variant) error {
	a, slice := e.directArgs, r.Bytes()
	a.operands(r)
	in, out := r.Extents(e.rank, e.size)
	if in == 0 {
		a.send = 0
	}
	if out == 0 {
		a.recv = 0
	}
	a.bytes, a.sendStride, a.recvStride, a.root = uint64(slice), 0, 0, everyone
	switch r.Collective {
	case collective.AllReduce, collective.Reduce:
		slice = sliceOf(slice, int64(e.size))
		a.sendStride, a.recvStride = uint64(slice), uint64(slice)
	case collective.AllGather, collective.Gather:
		a.recvStride = a.bytes
	case collective.ReduceScatter, collective.Scatter:
		a.sendStride = a.bytes
	case collective.AllToAll:
		a.sendStride, a.recvStride = a.bytes, a.bytes
	}
	switch r.Collective {
	case collective.Broadcast, collective.Reduce, collective.Gather, collective.Scatter:
		a.root = uint32(r.Root)
	case collective.ReduceScatter:
		out = 0
	}
	if movesOnly(r.Collective) {
		in = 0
	}
	if err := e.need(pieceStreams, e.everyRank()); err != nil {
		return err
	}
	if err := e.place(r, s, in, out); err != nil {
		return err
	}
	blocks := e.call.channels(slice, int64(v.threads), min(e.ringBlocks, directBlocks))
	cfg := cuda.Launch1D(int(blocks), ringWorkers+directHelpers, 0)
	if e.bulk() {
		cfg.Shared = directShared
	}
	return s.LaunchInOrder(cmp.Or(e.directSums(r), e.directKernel(r)), &cfg, launcher.Raw(a), e.launcher.Order)
}

// unshared is told of a buffer that no peer uses.
const unshared = 1

// place fills the addresses of the buffers of a launch, of which peers use `in` and `out` bytes. It offers none to an
// all-to-all in place, which would overwrite data before it is sent, and to a reduction of buffers that are not
// aligned.
func (e *Engine) place(r *collective.Request, s *cuda.Stream, in, out int64) error {
	a := e.directArgs
	for p := range e.size {
		a.in[p], a.out[p] = unshared, unshared
	}
	allowed := (a.send|a.recv)&15 == 0
	if movesOnly(r.Collective) {
		allowed = r.Collective != collective.AllToAll || a.send != a.recv
	}
	var err error
	if allowed {
		sends, err1 := e.known(s, r.Send, in, a.in[:e.size])
		receives, err2 := e.known(s, r.Recv, out, a.out[:e.size])
		if sends && receives {
			return nil
		}
		err = errors.Join(err1, err2)
	}
	a.in, a.out = [maxRanks]uint64{}, [maxRanks]uint64{}
	return err
}

// known fills at with the addresses of n bytes at p in the ranks' processes, if all ranks have mapped them. A captured
// call waits for that, because the graph keeps the addresses.
func (e *Engine) known(s *cuda.Stream, p device.Ptr, n int64, at []uint64) (bool, error) {
	if n == 0 || e.buffers.At(p, n, at) {
		return true, nil
	}
	status, _, err := s.CaptureStatus()
	return err == nil && status != cuda.CaptureNone && e.buffers.Await(p, n, at, captureWait), err
}
