package nvlink

import (
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/kernels"
)

// These are the kernel name prefixes of the jobs of kernels/collective/ring.cuh and ring_fold.cuh.
var (
	ringReductions = []string{"all_reduce_ring", "reduce_scatter_ring", "reduce_ring"}
	ringMovements  = []string{"all_gather_ring", "broadcast_ring"}
)

const (
	ringAllReduceJob = iota
	ringReduceScatterJob
	ringReduceJob
)

const (
	ringAllGatherJob = iota
	ringBroadcastJob
)

// ringTable holds the kernels of both files. The last index is 1 for kernels that need addresses and sizes that are
// multiples of 16, and, for reductions, the operator sum or avg. They form a separate module, which is loaded when a
// table or GOCCL_ALGO names the ring.
type ringTable struct {
	loaded bool
	reduce [3][datatype.NumTypes][2]*cuda.Function
	move   [2][2]*cuda.Function
}

func ringReductionName(job int, t datatype.Type, aligned int) string {
	return ringReductions[job] + "_" + typeNames[t] + []string{"", "_sum"}[aligned]
}

func ringMovementName(job, aligned int) string {
	return ringMovements[job] + []string{"", "_words"}[aligned]
}

// loadChosen loads the kernels of large messages that the table may choose, and direct's where they take the ring's
// place. Requests that direct cannot run need the ring's. It also chooses the messages that are streams.
func (e *Engine) loadChosen() error {
	e.messagesBy(e.table.messages())
	for _, p := range []protocol{ring, direct} {
		if e.size > 1 && (e.table.chooses(p) || p == direct && e.inRankOrder(collective.ExactRun) && e.table.chooses(ring)) {
			if err := e.loadLarge(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadLarge loads the kernels of ring or direct.
func (e *Engine) loadLarge(p protocol) error {
	if p == direct {
		if err := e.loadDirect(); err != nil {
			return err
		}
	}
	return e.loadRing()
}

// loadRing loads the ring kernels if they are not loaded.
func (e *Engine) loadRing() error {
	k := &e.ringKernels
	if k.loaded {
		return nil
	}
	m, err := launcher.Load(e.dev, "ring")
	if err != nil {
		return err
	}
	k.loaded = true
	exists := kernels.Names("ring")
	find := func(name string) (f *cuda.Function) {
		name = kernels.Entry(name)
		if err == nil && slices.Contains(exists, name) {
			f, err = function(m, name)
		}
		return f
	}
	for aligned := range 2 {
		for job := range ringReductions {
			for t := range datatype.NumTypes {
				k.reduce[job][t][aligned] = find(ringReductionName(job, t, aligned))
			}
		}
		for job := range ringMovements {
			k.move[job][aligned] = find(ringMovementName(job, aligned))
		}
	}
	return err
}

// chooses reports whether some row names protocol p.
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

// canUseRing reports whether the ring can run a request. Results of narrow types are rounded once, at the end, so
// partial results must not travel. 16-bit types are therefore reduced by the owners of slices, if the collective has
// owners, and 8-bit types go as packets. On the ring the order of terms depends on the slice, which of two terms shows
// no difference.
func (e *Engine) canUseRing(r *collective.Request) bool {
	if e.inRankOrder(r.Exact) && r.Ordered() {
		return false
	}
	switch r.Collective {
	case collective.AllGather, collective.Broadcast:
		return e.size > 1
	case collective.AllReduce, collective.ReduceScatter:
		return e.size > 1 && r.Type.Size() >= 2
	case collective.Reduce:
		return e.size > 1 && r.Type.Size() >= 4
	}
	return false
}

// inRankOrder reports whether reductions must add in the order of ranks, which the ring does for two ranks only.
func (e *Engine) inRankOrder(call collective.Exact) bool {
	return max(e.exact, call) >= collective.ExactBatch && e.size > 2
}

// packets is the packet variant that replaces the ring if the ring cannot run a request.
func (s *selection) packets(c collective.Collective) variant {
	if s.noLL128 {
		return variant{twoShot: c == collective.AllReduce, protocol: ll, threads: 512}
	}
	return variant{twoShot: c == collective.AllReduce || c == collective.Reduce ||
		c == collective.Broadcast, protocol: ll128, threads: 512}
}

// ringReduce runs all-reduce (root everyone) and reduce.
func (e *Engine) ringReduce(r *collective.Request, s *cuda.Stream, root uint32, v variant) error {
	a := e.ring
	a.operands(r)
	a.bytes, a.root = uint64(r.Bytes()), root
	if root != everyone {
		if e.rank != r.Root {
			a.recv = 0 // ignored; must not break the alignment
		}
		a.sendStride, a.recvStride = 0, 0
		return e.launchRingReduction(r, s, ringReduceJob, v, ringWork{slice: r.Bytes(), chain: true})
	}
	slice := sliceOf(r.Bytes(), int64(e.size))
	a.sendStride, a.recvStride = uint64(slice), uint64(slice)
	return e.launchRingReduction(r, s, ringAllReduceJob, v, ringWork{slice: slice})
}

func (e *Engine) ringReduceScatter(r *collective.Request, s *cuda.Stream, v variant) error {
	a := e.ring
	a.operands(r)
	a.bytes, a.root = uint64(r.Bytes()), everyone
	a.sendStride, a.recvStride = uint64(r.Bytes()), 0
	return e.launchRingReduction(r, s, ringReduceScatterJob, v, ringWork{slice: r.Bytes()})
}

func (e *Engine) ringAllGather(r *collective.Request, s *cuda.Stream, v variant) error {
	a := e.ring
	a.operands(r)
	a.bytes, a.root = uint64(r.Bytes()), everyone
	a.sendStride, a.recvStride = 0, uint64(r.Bytes())
	return e.launchRingMovement(s, ringAllGatherJob, v, ringWork{slice: r.Bytes()})
}

func (e *Engine) ringBroadcast(r *collective.Request, s *cuda.Stream, v variant) error {
	a := e.ring
	a.operands(r)
	if e.rank != r.Root {
		a.send = a.recv // ignored; must not break the alignment
	}
	a.bytes, a.root = uint64(r.Bytes()), uint32(r.Root)
	a.sendStride, a.recvStride = 0, 0
	return e.launchRingMovement(s, ringBroadcastJob, v, ringWork{slice: r.Bytes(), chain: true})
}

// aligned reports whether all addresses and sizes of the next launch are multiples of 16 bytes. The data on the links
// does not depend on it, so ranks may differ.
func (a *collectiveArgs) aligned() bool {
	return (a.send|a.recv|a.bytes|a.sendStride|a.recvStride)&15 == 0
}

func (e *Engine) launchRingReduction(r *collective.Request, s *cuda.Stream, job int, v variant, w ringWork) error {
	k := &e.ringKernels.reduce[job][r.Type]
	aligned := plain.Bit[int](k[1] != nil && (r.Op == datatype.Sum || r.Op == datatype.Avg) && e.ring.aligned())
	if k[aligned] == nil {
		return missing(ringReductionName(job, r.Type, aligned))
	}
	return e.launchRing(s, k[aligned], v, w)
}

func (e *Engine) launchRingMovement(s *cuda.Stream, job int, v variant, w ringWork) error {
	aligned := plain.Bit[int](e.ring.aligned())
	f := e.ringKernels.move[job][aligned]
	if f == nil {
		return missing(ringMovementName(job, aligned))
	}
	return e.launchRing(s, f, v, w)
}

// launchRing sets the size of the FIFOs: the same on all ranks. All blocks of all ranks of a GPU are resident at once.
func (e *Engine) launchRing(s *cuda.Stream, f *cuda.Function, v variant, w ringWork) error {
	if err := e.need(pieceStreams, e.everyRank()); err != nil {
		return err
	}
	w.ranks = e.size
	shape := w.shape(e.call.channels(w.slice, int64(v.channels()), e.ringBlocks))
	e.ring.slotBytes = shape.packed()
	return e.submit(s, f, int(shape.channels), int(shape.threads), launcher.Raw(e.ring))
}
