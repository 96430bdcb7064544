package verify

import (
	"fmt"
	"iter"
	"slices"
	"unsafe"

	"github.com/goccl/goccl/plan"
)

// memory is what the run has done to the chunks of all ranks. A cell has the last write to its place and every read
// since then, except reads that are ordered before a later one. A plane of scratch has the accesses of the launch that
// uses it, each of which knows that all accesses of the launch before are over.
type memory struct {
	cells    []cell
	planes   [][plan.NumPlanes]int // by rank: the first cell of a plane, with both halves of scratch
	chunks   [][plan.NumPlanes]int // chunks of a plane
	scratch  []planeState          // by rank, half, and whether the plane has packets
	values   *values
	inst     int64            // the next instance, without its element of the symmetry
	packets  bool             // the plan uses packets
	waiting  map[int][]int    // by cell of a packet: the thread blocks that wait for it
	repeated map[int][]access // by cell of a packet: all writes, where a launch has several
}

// stamp is the time of an access in a clock: component comp, in its phase t.
type stamp struct {
	comp int32
	t    uint32
}

// access is one recorded access to a cell. Accesses of one op at one offset have the same inst: one thread makes them.
type access struct {
	stamp
	at   event
	inst int64
}

// cell is the state of one atom of one chunk.
type cell struct {
	write access
	reads []access // since write, without those that happen before a later read
	value int32

	// Packets only: the launch of its flag, whether it was read, the clock that its reader receives, and the movements
	// that are over when it arrives: those that it was made by. This orders a write after the reads that its own input
	// was made from: an in-place all-reduce with packets overwrites input in this way.
	flag    int32
	read    bool
	carries *clock
	proof   movements
}

// planeState is a plane of scratch: the launch that uses it, and the accesses in the launch before and in this one.
type planeState struct {
	launch      int32
	before, now planeUse
	// by component and thread (of a transfer): 1 + launch that is known to be after all of before
	checked map[[2]int32]int32
}

type planeUse struct {
	reads, writes map[int32]usage // by component
}

// layCells numbers the cells. In an in-place plan, buffers that are one memory share cells.
func (v *verifier) layCells() error {
	v.planes = make([][plan.NumPlanes]int, len(v.p.GPUs))
	v.chunks = make([][plan.NumPlanes]int, len(v.p.GPUs))
	plain := v.p.UsesPlainScratch()
	total := int64(0)
	for r := range v.p.GPUs {
		if !v.quotient.own(r) {
			continue
		}
		in, out, s := v.p.ChunkCount(r, plan.Input), v.p.ChunkCount(r, plan.Output), v.p.GPUs[r].ScratchChunks
		if v.p.InPlace {
			in, out = max(in, out), 0
		}
		halves := 1
		if v.p.DoubleScratch {
			halves = 2
		}
		n := [plan.NumPlanes]int{in, out, 0, 0}
		if plain {
			n[plan.ScratchPlane] = s * halves
		}
		if v.packets {
			n[plan.PacketPlane] = s * halves
		}
		for pl, c := range n {
			v.planes[r][pl] = int(total)
			v.chunks[r][pl] = c
			total += int64(c) * int64(len(v.shape.atoms))
			if total > v.opts.MaxCells {
				return fmt.Errorf("plan %s: %w: over %d places to track", v.p.Name, ErrTooLarge, v.opts.MaxCells)
			}
		}
	}
	if n := total * int64(unsafe.Sizeof(cell{})); n > v.opts.MaxBytes {
		return tooMuch(v.p, n, v.opts.MaxBytes)
	}
	v.cells = slices.Repeat([]cell{{flag: -1, write: access{stamp: stamp{comp: -1}}}}, int(total))
	v.scratch = make([]planeState, 4*len(v.p.GPUs))
	for i := range v.scratch {
		v.scratch[i] = planeState{launch: -1, checked: map[[2]int32]int32{}}
	}
	return nil
}

// cellAt returns the index of the first atom of a chunk in the given launch.
func (v *verifier) cellAt(rank int, pl plan.Plane, chunk, launch int) int {
	pl, chunk = v.p.MemoryAt(rank, pl, chunk, v.period)
	if pl >= plan.ScratchPlane && v.p.DoubleScratch && launch&1 == 1 {
		chunk += v.p.GPUs[rank].ScratchChunks
	}
	return v.planes[rank][pl] + chunk*len(v.shape.atoms)
}

// cellOf returns the index of an atom of a chunk of a place in the given launch.
func (v *verifier) cellOf(pl *plan.Place, part sub, launch int) int {
	return v.cellAt(pl.Rank, pl.Plane, pl.Index+int(part.chunk), launch) + int(part.atom)
}

func (v *verifier) planeState(rank int, pl plan.Plane, launch int) *planeState {
	i := 4 * rank
	if v.p.DoubleScratch {
		i += 2 * (launch & 1)
	}
	if pl == plan.PacketPlane {
		i++
	}
	return &v.scratch[i]
}

// exist visits the atoms that a chunk has in a launch.
func (v *verifier) exist(rank int, pl plan.Plane, chunk, launch int) iter.Seq[int] {
	return func(yield func(int) bool) {
		at := plan.Place{Rank: rank, Plane: pl, Index: chunk, Size: 1}
		n := v.shape.windows(v.shape.loops.of(v.p, v.resolved, &at, 0), launch)
		for i := range v.shape.atoms {
			if int64(v.shape.atoms[i].window) < n && v.shape.has(i, launch) && !yield(i) {
				return
			}
		}
	}
}

// classOf returns the class of pipelines that divides a chunk in memory, or -1.
func (v *verifier) classOf(rank int, pl plan.Plane, k int) int {
	l := v.shape.loops
	if !l.used {
		return -1
	}
	if n := v.p.GPUs[rank].ScratchChunks; pl >= plan.ScratchPlane && n > 0 {
		k %= n // both halves
	}
	if w := &l.walks[l.sets.Of(int(l.start[rank][pl])+k)]; w.unit > 0 {
		return w.class
	}
	return -1
}

// liveClocks is how many clocks a thread block holds at a time, measured on trees, rings and exchanges of 256 to 1,024
// ranks: the clock of its phase, the same with the block's progress, and the clocks that signals bring.
const liveClocks = 3

// fits estimates the memory that a run takes: cells, and clocks of an entry per component for each thread block.
func (v *verifier) fits() error {
	n := int64(len(v.cells)) * int64(unsafe.Sizeof(cell{}))
	for _, b := range v.blocks {
		if v.quotient.own(b.rank) {
			n += liveClocks * v.time.bytes()
		}
	}
	if n > v.opts.MaxBytes {
		return tooMuch(v.p, n, v.opts.MaxBytes)
	}
	return nil
}

func tooMuch(p *plan.Plan, bytes, bound int64) error {
	return fmt.Errorf("plan %s: %w: not examined, because that takes about %d MiB of memory and the bound is %d MiB; use "+
		"fewer thread blocks per rank, or let all ranks run one program, renamed, so that one stands for all", p.Name,
		ErrTooLarge, bytes>>20, bound>>20)
}
