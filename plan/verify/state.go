package verify

import (
	"fmt"
	"iter"
	"unsafe"

	"github.com/goccl/goccl/plan"
)

// event is an executed op: a thread block, a position in its unrolled program, a launch. With block -1 it is the caller
// of rank pc.
type event struct {
	block, pc int32
	launch    int32
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

// unit is an instruction of an unrolled program: an op outside of a pipeline, or in one of its iterations.
type unit struct {
	step  *plan.Step
	loop  *plan.Step // the pipeline, or nil
	iter  int32      // of it
	parts [][]sub    // by move
}

// blockState is the state of a running thread block.
type blockState struct {
	id, rank int
	programs [][]unit // by launch
	program  []unit   // of this launch
	pc       int
	launch   int
	done     bool // all launches have ended
	ended    bool // this launch has ended; waits for the other thread blocks of the rank
	meeting  bool // has arrived at the barrier at pc
	arrived  bool // was released from it

	phase   uint32           // number of completed phases
	begins  []event          // first event of each phase
	base    *clock           // clock of all threads at the beginning of the phase; its own component may lag
	lanes   map[int][]*clock // clocks that single threads have received since
	packets []*clock         // clocks that packets have carried since
	pending []movements      // proofs of the packets consumed in this phase
	shared  *clock           // base with its own component up to date, computed when first needed
	grant   int              // position of the iteration that the gate has let begin, or -1
	entry   bool             // only relaxed signals and waits so far in this launch
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

type verifier struct {
	*resolved
	p      *plan.Plan
	shape  *messageShape
	report *Report
	opts   *Options

	time      *timeline
	blocks    []*blockState
	portOf    map[[2]int]int // thread block and link: port
	ports     []port         // by component, two for each, see reader
	linkPorts map[int][]int  // link: its ports
	caller    int            // component of the caller of rank 0

	counters []counter
	barriers map[[2]int]*barrier // rank and id

	cells    []cell
	planes   [][plan.NumPlanes]int // first cell of a plane of a rank, for each half of scratch
	chunks   [][plan.NumPlanes]int // chunks of a plane
	scratch  []planeState          // by (rank, half, plane is packets)
	values   *values
	waiting  map[int][]int    // packet cell: thread blocks that wait for it
	repeated map[int][]access // packet cell: all writes, where there were several in the launch
	joined   map[[2]*clock]*clock
	began    []*clock // clock at the start of the running launch, by rank
	launched []int    // launches begun, by rank
	running  []int    // thread blocks of the rank not yet at the end of the launch

	quotient *quotient // nil when all ranks run

	wanted  [][]demand // by rank
	reduces bool       // report.Operator is set

	queue   []int
	queued  []bool
	inst    int64 // of the last movement, without its element
	packets bool  // the plan uses them
	gate    gate
	second  *second
	starts  []digest // state when all ranks begin launch 1, 2, …, as far as no packets are used
}

// port is the sequence of transfers that one thread block pushed into one port channel.
type port struct {
	block  int
	link   int
	pushes []push
}

type push struct {
	phase uint32
	lane  int
}

func newVerifier(p *plan.Plan, r *resolved, sh *messageShape, report *Report, opts *Options) (*verifier, error) {
	v := &verifier{resolved: r, p: p, shape: sh, report: report, opts: opts, portOf: map[[2]int]int{},
		linkPorts: map[int][]int{},
		barriers:  map[[2]int]*barrier{}, values: newValues(), waiting: map[int][]int{},
		repeated: map[int][]access{}, joined: map[[2]*clock]*clock{},
		began: make([]*clock, len(p.GPUs)), wanted: make([][]demand, len(p.GPUs)), packets: p.UsesPackets()}
	v.caller = len(r.programs)
	steps := int64(0)
	if r.symmetry != nil {
		v.quotient = &quotient{Group: r.symmetry, v: v, clocks: map[framedClock]*clock{}}
		v.values.quotient = v.quotient
	}
	for b, prog := range r.programs {
		st := &blockState{id: b, rank: r.rankOf[b], lanes: map[int][]*clock{}}
		if !v.quotient.own(st.rank) { // it never runs; messages name its ops
			rep := v.blocks[r.first[v.quotient.Representative(st.rank)]+b-r.first[st.rank]]
			st.done, st.program, st.programs = true, rep.program, rep.programs
			v.blocks = append(v.blocks, st)
			continue
		}
		for launch := range report.Launches {
			if launch > 0 && launch >= len(sh.turns) && sh.present == nil {
				st.programs = append(st.programs, st.program)
				continue
			}
			st.program = nil
			for i := range prog {
				if err := v.unroll(st, &prog[i], launch); err != nil {
					return nil, err
				}
			}
			st.programs = append(st.programs, st.program)
		}
		for _, prog := range st.programs {
			steps += int64(len(prog))
		}
		st.program = st.programs[0]
		v.blocks = append(v.blocks, st)
	}
	report.Steps += steps
	if report.Steps > opts.MaxSteps {
		return nil, fmt.Errorf("plan %s: %w: %d ops to execute, the bound is %d", p.Name, ErrTooLarge, report.Steps,
			opts.MaxSteps)
	}
	v.queued = make([]bool, len(v.blocks))
	v.layClocks()
	if err := v.layCells(); err != nil {
		return nil, err
	}
	if err := v.fits(); err != nil {
		return nil, err
	}
	v.layCounters()
	return v, nil
}

// unroll appends step to the program, pipelines iteration by iteration, and numbers the port channels that it pushes
// to.
func (v *verifier) unroll(b *blockState, step *plan.Step, launch int) error {
	if !step.Does.Has(plan.Loops) {
		b.program = append(b.program, v.unit(b, step, nil, -1, launch))
		return nil
	}
	n := v.shape.at(launch).n[v.shape.loops.class[step.Op]]
	if n*int64(len(step.Body)) > v.opts.MaxSteps {
		return fmt.Errorf("plan %s: %w: %d iterations of %d ops", v.p.Name, ErrTooLarge, n, len(step.Body))
	}
	for i := range int(n) {
		for j := range step.Body {
			b.program = append(b.program, v.unit(b, &step.Body[j], step, i, launch))
		}
	}
	return nil
}

// unit resolves a step: in iteration iter of a pipeline, or outside of pipelines with iter -1.
func (v *verifier) unit(b *blockState, step, loop *plan.Step, iter, launch int) unit {
	u := unit{step: step, loop: loop, iter: int32(iter)}
	for i := range step.Moves {
		m := &step.Moves[i]
		u.parts = append(u.parts, v.partOf(m, step.Op.Slice, iter, launch))
		if m.Entry < 0 {
			continue
		}
		link := v.link(b.rank, plan.PortChannel, step.Channels[m.Entry])
		at := [2]int{b.id, link}
		if _, ok := v.portOf[at]; !ok {
			v.portOf[at] = len(v.ports)
			v.linkPorts[link] = append(v.linkPorts[link], len(v.ports))
			v.ports = append(v.ports, port{block: b.id, link: link})
			for g := 1; g < v.quotient.order(); g++ { // the images of b's
				v.ports = append(v.ports, port{block: v.quotient.block(int32(g), b.id), link: -1})
			}
		}
	}
	return u
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
	if w := &l.walks[l.find(l.start[rank][pl]+int32(k))]; w.unit > 0 {
		return w.class
	}
	return -1
}

// partOf returns the atoms that a move accesses in each of its operands.
func (v *verifier) partOf(m *plan.Move, slice plan.Slice, iter, launch int) []sub {
	key := partKey{size: m.Src[0].Size, slice: slice, iter: iter, until: 1}
	if key.slice.Count <= 1 {
		key.slice = plan.Slice{}
	}
	if v.shape.present != nil {
		key.launch = launch
	}
	l := v.shape.loops
	if iter >= 0 || !l.used {
		return v.shape.part(key)
	}
	var subs []sub
	alike := true
	until := func(j int) int64 { return v.shape.windows(l.of(v.p, v.resolved, &m.Src[0], j), launch) }
	for j := range key.size {
		key.until = until(j)
		alike = alike && key.until == until(0)
	}
	if alike {
		return v.shape.part(key)
	}
	for j := range key.size {
		key.until = until(j)
		for _, s := range v.shape.part(key) {
			if int(s.chunk) == j {
				subs = append(subs, s)
			}
		}
	}
	return subs
}

// reader and writer return the components of a port: its transfers as readers of their sources, which a flush waits
// for, and as writers of their destinations, which only what follows them in the channel waits for.
func (v *verifier) reader(port int) int { return v.caller + len(v.p.GPUs) + 2*port }
func (v *verifier) writer(port int) int { return v.reader(port) + 1 }

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
	v.cells = make([]cell, total)
	for i := range v.cells {
		v.cells[i].flag = -1
		v.cells[i].write.comp = -1
	}
	v.scratch = make([]planeState, 4*len(v.p.GPUs))
	for i := range v.scratch {
		v.scratch[i] = planeState{launch: -1, checked: map[[2]int32]int32{}}
	}
	return nil
}

// canonical returns the plane and chunk in memory of a place of a rank, after aliasing.
func (v *verifier) canonical(rank int, pl plan.Plane, chunk int) (plan.Plane, int) {
	return v.p.MemoryAt(rank, pl, chunk, v.period)
}

// cellAt returns the index of the first atom of a chunk in the given launch.
func (v *verifier) cellAt(rank int, pl plan.Plane, chunk, launch int) int {
	pl, chunk = v.canonical(rank, pl, chunk)
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
