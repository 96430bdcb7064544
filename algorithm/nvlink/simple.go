package nvlink

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/kernels"
)

// Jobs of kernels/collective/simple.cuh, as its kernels' names begin.
var (
	simpleReductions = []string{"all_reduce", "reduce_scatter", "reduce"}
	simpleMovements  = []string{"all_gather", "all_to_all", "broadcast"}
)

const (
	simpleAllReduceJob = iota
	simpleReduceScatterJob
	simpleReduceJob
)

const (
	simpleAllGatherJob = iota
	simpleAllToAllJob
	simpleBroadcastJob
)

// simpleTable is the kernels of simple.cuh. The last index is 1 for those made for this number of ranks, which want addresses and sizes that are
// multiples of 16. They are a module of their own, loaded when a table or GOCCL_ALGO names one of them.
type simpleTable struct {
	module *cuda.Module
	reduce [3][datatype.NumTypes][2]*cuda.Function
	move   [3][2]*cuda.Function
}

func (k *simpleTable) close() error {
	if k.module == nil {
		return nil
	}
	m := k.module
	k.module = nil
	return m.Close()
}

func simpleReductionName(job int, t datatype.Type, fast, ranks int) string {
	name := fmt.Sprintf("%s_simple_%s", simpleReductions[job], typeNames[t])
	if fast != 0 {
		name += fmt.Sprintf("_sum_n%d", ranks)
	}
	return name
}

func simpleMovementName(job, fast, ranks int) string {
	name := simpleMovements[job] + "_simple"
	if fast != 0 {
		name += fmt.Sprintf("_n%d", ranks)
	}
	return name
}

// loadChosen loads what the table may choose and is not loaded yet.
func (e *Engine) loadChosen() error {
	if e.simpleKernels.module != nil || e.size == 1 || !e.table.chooses(simple) {
		return nil
	}
	p := e.dev.Properties()
	image, err := kernels.Image("simple", p.Major, p.Minor)
	if err != nil {
		return err
	}
	k := &e.simpleKernels
	if k.module, err = e.dev.LoadModule(image); err != nil {
		return err
	}
	if p.Major >= 9 { // bulk copies
		e.simpleShared = simpleShared
	}
	exists := kernels.Names("simple")
	find := func(name string) (f *cuda.Function) {
		if err == nil && slices.Contains(exists, name) {
			f, err = k.module.Function(name)
		}
		if err == nil && f != nil && e.simpleShared > 0 {
			err = f.SetMaxDynamicShared(int(e.simpleShared))
		}
		return f
	}
	for fast := range 2 {
		for job := range simpleReductions {
			for t := range datatype.NumTypes {
				k.reduce[job][t][fast] = find(simpleReductionName(job, t, fast, e.size))
			}
		}
		for job := range simpleMovements {
			k.move[job][fast] = find(simpleMovementName(job, fast, e.size))
		}
	}
	return err
}

// chooses reports whether some row names a protocol.
func (s *selection) chooses(p protocol) bool {
	for c := range s.rows {
		for m := range s.rows[c] {
			for w := range s.rows[c][m] {
				if slices.ContainsFunc(s.rows[c][m][w], func(x choice) bool { return x.protocol == p }) {
					return true
				}
			}
		}
	}
	return false
}

// simpleReduce runs all-reduce (root everyone) and reduce.
func (e *Engine) simpleReduce(r *algorithm.Request, s *cuda.Stream, root uint32, v variant) error {
	job, owners := simpleAllReduceJob, int64(e.size)
	if root != everyone {
		job, owners = simpleReduceJob, owners-1
	}
	a, slice := e.simple, sliceOf(r.Bytes(), owners)
	a.operands(r)
	if root != everyone && e.rank != r.Root {
		a.recv = 0
	}
	a.bytes, a.root = uint64(r.Bytes()), root
	a.sendStride, a.recvStride = uint64(slice), uint64(slice)
	recvUse := reached
	if root != everyone && e.rank != r.Root {
		recvUse = unused
	}
	e.offer(r.Bytes(), recvUse, r.Bytes(), e.loads(r))
	return e.launchSimpleReduction(r, s, job, v, slice)
}

// use is what peers do with a buffer in a launch.
type use uint8

const (
	kept    use = iota // they must not reach it
	unused             // they have no need to
	reached            // they store into it, or load from it
)

// loads is the use of a send buffer whose owner does not scale what it sends, where there are bulk copies to load with.
func (e *Engine) loads(r *algorithm.Request) use {
	if r.Op == datatype.PreMulSum || e.simpleShared == 0 {
		return kept
	}
	return reached
}

// offer lets the peers reach the buffers of the next launch, of so many bytes, as far as they have mapped them.
func (e *Engine) offer(recv int64, recvUse use, send int64, sendUse use) {
	a := e.simple
	a.maps, a.direct, a.directSend = e.registry.tablePtr(), 0, 0
	if a.maps == 0 || (a.bytes|a.recvStride)&15 != 0 {
		return
	}
	a.direct = e.reach(a.recv, recv, recvUse)
	if a.sendStride&15 == 0 {
		a.directSend = e.reach(a.send, send, sendUse)
	}
}

// reach is how peers reach a buffer: by a word of the registry, 1 if they need not, 0 if they cannot.
func (e *Engine) reach(p uint64, bytes int64, u use) uint64 {
	switch {
	case u == kept || p&15 != 0:
		return 0
	case u == unused:
		return 1
	}
	return e.registry.word(device.Ptr(p), bytes, everybody)
}

func (e *Engine) simpleReduceScatter(r *algorithm.Request, s *cuda.Stream, v variant) error {
	a := e.simple
	a.operands(r)
	a.bytes, a.root = uint64(r.Bytes()), everyone
	a.sendStride, a.recvStride = uint64(r.Bytes()), 0
	e.offer(r.Bytes(), unused, int64(e.size)*r.Bytes(), e.loads(r))
	return e.launchSimpleReduction(r, s, simpleReduceScatterJob, v, r.Bytes())
}

func (e *Engine) simpleExchange(r *algorithm.Request, s *cuda.Stream, stride int64, v variant) error {
	a, job := e.simple, simpleAllGatherJob
	if stride != 0 {
		job = simpleAllToAllJob
	}
	a.operands(r)
	a.bytes, a.root = uint64(r.Bytes()), everyone
	a.sendStride, a.recvStride = uint64(stride), uint64(r.Bytes())
	e.offer(int64(e.size)*r.Bytes(), reached, 0, kept)
	return e.launchSimpleMovement(s, job, v, r.Bytes())
}

func (e *Engine) simpleBroadcast(r *algorithm.Request, s *cuda.Stream, v variant) error {
	a, slice := e.simple, sliceOf(r.Bytes(), int64(e.size-1))
	a.operands(r)
	if e.rank != r.Root {
		a.send = a.recv // ignored, and must not spoil the alignment
	}
	a.bytes, a.root = uint64(r.Bytes()), uint32(r.Root)
	a.sendStride, a.recvStride = uint64(slice), uint64(slice)
	recvUse, sendUse := reached, unused
	if e.rank == r.Root {
		recvUse, sendUse = unused, reached
	}
	if e.simpleShared == 0 {
		sendUse = kept
	}
	e.offer(r.Bytes(), recvUse, r.Bytes(), sendUse)
	return e.launchSimpleMovement(s, simpleBroadcastJob, v, slice)
}

// aligned reports whether all that the next launch touches lies at multiples of 16 bytes. What crosses the links does not depend on it, so ranks
// may differ.
func (a *collectiveArgs) aligned() bool {
	return (a.send|a.recv|a.bytes|a.sendStride|a.recvStride)&15 == 0
}

func (e *Engine) launchSimpleReduction(r *algorithm.Request, s *cuda.Stream, job int, v variant, slice int64) error {
	fast := btoi(special(r.Type, r.Op, e.size) && e.simple.aligned())
	f := e.simpleKernels.reduce[job][r.Type][fast]
	if f == nil {
		return missing(simpleReductionName(job, r.Type, fast, e.size))
	}
	return e.launchSimple(s, f, v, slice)
}

func (e *Engine) launchSimpleMovement(s *cuda.Stream, job int, v variant, slice int64) error {
	fast := btoi((e.size == 2 || e.size == 4 || e.size == 8) && e.simple.aligned())
	f := e.simpleKernels.move[job][fast]
	if f == nil {
		return missing(simpleMovementName(job, fast, e.size))
	}
	return e.launchSimple(s, f, v, slice)
}

const simpleThreads = 512

// launchSimple shapes the grid, the same on all ranks: all blocks of all ranks of a GPU are on it at once, and a block may fill a multiprocessor.
func (e *Engine) launchSimple(s *cuda.Stream, f *cuda.Function, v variant, slice int64) error {
	each := simpleSlotBytes(e.size)
	channels := min(int64(v.channels()), e.maxBlocks/(2*simpleRoles), (slice+each-1)/each)
	return e.submit(s, f, cuda.Launch1D(int(channels)*simpleRoles, simpleThreads, e.simpleShared), params(e.simple))
}
