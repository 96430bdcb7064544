package interp

import (
	"fmt"
	"math/rand/v2"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/plan"
)

// Config describes a run.
type Config struct {
	Sizes   []uint64      // message size of each launch, as in plan.Plan.MinSize
	Type    datatype.Type // of the elements
	Op      datatype.Op   // for reductions whose operator the plan leaves to the caller
	Seed    uint64        // determines the interleaving
	Threads int           // threads per thread block; 0: 2 to 5, chosen by the seed

	// Counts are how many bytes each rank sends to each, of a plan with counts; nil: all.
	Counts [][]int64

	// Fill sets the input of a rank before a launch; Check examines its buffers after it. In place, both slices share
	// memory. Check may be nil. If Fill is nil, the input is zeros.
	Fill  func(rank, launch int, input []byte)
	Check func(rank, launch int, input, output []byte) error
}

// DeadlockError reports that no actor can step although work is left.
type DeadlockError struct {
	Plan    string
	Waiting []string // one line for each unfinished thread block
}

func (e *DeadlockError) Error() string {
	s := fmt.Sprintf("interp: plan %s: deadlock", e.Plan)
	for _, w := range e.Waiting {
		s += "\n  " + w
	}
	return s
}

// Run executes the launches of cfg one after the other on every rank. The plan must be valid.
func Run(p *plan.Plan, cfg Config) error {
	m, err := newMachine(p, cfg)
	if err != nil {
		return err
	}
	return m.run()
}

// run gives every actor a random priority, always steps the first actor that can step, and occasionally moves that
// actor to the back: few switches at random places reach most orders that matter.
func (m *machine) run() error {
	actors := m.actors()
	m.rng.Shuffle(len(actors), func(i, j int) { actors[i], actors[j] = actors[j], actors[i] })
	every := []int{1, 8, 64, 1024}[m.rng.IntN(4)]
	for {
		ran := -1
		for i, a := range actors {
			on, err := a.step()
			if err != nil {
				return err
			}
			if on {
				ran = i
				break
			}
		}
		switch {
		case ran >= 0 && m.rng.IntN(every) == 0:
			to := m.rng.IntN(len(actors))
			actors[ran], actors[to] = actors[to], actors[ran]
		case ran >= 0:
		case m.finished():
			return nil
		default:
			return m.deadlock()
		}
	}
}

// actors returns the threads, then the port queues and their wires, then the callers.
func (m *machine) actors() []actor {
	var out []actor
	for _, b := range m.blocks {
		for _, l := range b.threads {
			l.actor = len(out)
			out = append(out, l)
		}
	}
	for _, q := range m.ports {
		q.actor, q.wire.actor = len(out), len(out)+1
		out = append(out, q, q.wire)
	}
	for _, r := range m.ranks {
		r.actor = len(out)
		out = append(out, r)
	}
	return out
}

// actor is anything that can take a step. step reports whether it did; if not, it has changed nothing.
type actor interface {
	step() (bool, error)
}

// machine holds all ranks.
type machine struct {
	p       *plan.Plan
	cfg     Config
	rng     *rand.Rand
	layouts []*plan.Layout // by launch
	ranks   []*rankState
	blocks  []*block
	ports   []*portQueue
	links   *plan.Links
	counts  []int // signals that have arrived, by link
	waited  []int
	queues  map[int]*portQueue // by link
	trace   *trace             // nil unless Explore runs
	granule int64              // resolution of the trace for the callers' buffers
}

// rankState holds the memory of a rank and the state of its caller.
type rankState struct {
	m             *machine
	rank          int
	input, output []byte
	scratch       []byte
	places        plan.ScratchLayout
	semaphores    []int
	barriers      map[int]int // arrivals so far
	blocks        []*block
	actor         int
	inputAt       int64 // offsets of the buffers in one numbering of the rank's memory
	outputAt      int64
	launch        int // the running launch, or the number of launches when all have ended
	idle          bool
	fresh         []byte // the input of the launch; what hooks guard comes into place when the caller is there
}

func newMachine(p *plan.Plan, cfg Config) (*machine, error) {
	m := &machine{p: p, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x676f63636c)), links: p.Links(),
		queues: map[int]*portQueue{}}
	if m.cfg.Threads == 0 {
		m.cfg.Threads = 2 + m.rng.IntN(4)
	}
	chunk := int64(0)
	if !cfg.Type.Valid() {
		return nil, fmt.Errorf("interp: %v", cfg.Type)
	}
	switch cfg.Op {
	case datatype.Sum, datatype.Min, datatype.Max, datatype.Prod:
	default:
		return nil, fmt.Errorf("interp: plan %s: %v is not an operator of plans: sum, min, max or prod", p.Name, cfg.Op)
	}
	for _, size := range cfg.Sizes {
		l, err := p.NewLayout(size)
		if err != nil {
			return nil, err
		}
		if p.Alignment%cfg.Type.Size() != 0 || l.Block%cfg.Type.Size() != 0 {
			return nil, fmt.Errorf("interp: plan %s: %d bytes divide into blocks of %d and units of %d, which do not hold "+
				"whole elements of %s",
				p.Name, size, l.Block, p.Alignment, cfg.Type)
		}
		m.layouts = append(m.layouts, l)
		chunk = max(chunk, l.Chunk)
	}
	m.granule = granule(m.layouts)
	for i, l := range m.links.All {
		if l.Type == plan.PortChannel {
			m.queues[i] = &portQueue{m: m, link: i, wire: &portQueue{m: m, link: len(m.links.All) + i}}
			m.ports = append(m.ports, m.queues[i])
		}
	}
	m.counts, m.waited = make([]int, len(m.links.All)), make([]int, len(m.links.All))
	for r := range p.GPUs {
		rs := &rankState{m: m, rank: r, places: p.Scratch(r, chunk), barriers: map[int]int{}, launch: -1, idle: true}
		rs.scratch = make([]byte, rs.places.Size)
		for _, s := range p.GPUs[r].Semaphores {
			rs.semaphores = append(rs.semaphores, s.InitValue)
		}
		for b := range p.GPUs[r].ThreadBlocks {
			rs.blocks = append(rs.blocks, newBlock(m, rs, b, p.Program(r, b)))
		}
		for h := range p.GPUs[r].Hooks() {
			rs.blocks = append(rs.blocks, newBlock(m, rs, len(rs.blocks), p.CallerProgram(r, h)))
		}
		m.blocks = append(m.blocks, rs.blocks...)
		m.ranks = append(m.ranks, rs)
	}
	return m, nil
}

// step is the caller's step: when the launch has ended, it checks the results, overwrites the buffers, and begins the
// next launch.
func (r *rankState) step() (bool, error) {
	m := r.m
	if r.launch == len(m.cfg.Sizes) || !r.over() {
		return false, nil
	}
	m.trace.between(r)
	if r.launch >= 0 && m.cfg.Check != nil {
		if err := m.cfg.Check(r.rank, r.launch, r.input, r.output); err != nil {
			return false, err
		}
	}
	r.launch++
	if r.launch == len(m.cfg.Sizes) {
		return true, nil
	}
	r.allocate(m.layouts[r.launch])
	m.trace.begin(r)
	for _, b := range r.blocks {
		b.begin()
	}
	return true, nil
}

func (r *rankState) over() bool {
	for _, b := range r.blocks {
		if !b.done() {
			return false
		}
	}
	for _, q := range r.m.ports {
		if r.m.links.All[q.link].Rank == r.rank && len(q.items) > 0 {
			return false
		}
	}
	return true
}

// allocate prepares the buffers for a launch and fills them with junk. If the size is unchanged, it keeps the memory,
// so that a late access of the last launch hits it.
func (r *rankState) allocate(l *plan.Layout) {
	in, out := l.Size(r.rank, plan.Input), l.Size(r.rank, plan.Output)
	fresh := int64(len(r.input)) != in || int64(len(r.output)) != out
	switch {
	case !fresh:
	case !r.m.p.InPlace:
		r.input, r.output = make([]byte, in), make([]byte, out)
		r.outputAt = 1 << 40
	default:
		both := make([]byte, max(in, out))
		r.inputAt, r.outputAt = l.Together(r.rank)
		r.input = both[r.inputAt : r.inputAt+in : r.inputAt+in]
		r.output = both[r.outputAt : r.outputAt+out : r.outputAt+out]
	}
	for i := range r.output {
		r.output[i] = 0xa5
	}
	clear(r.input)
	if r.m.cfg.Fill != nil {
		r.m.cfg.Fill(r.rank, r.launch, r.input)
	}
	r.hide(l)
}

func (m *machine) finished() bool {
	for _, r := range m.ranks {
		if r.launch < len(m.cfg.Sizes) {
			return false
		}
	}
	return true
}

func (m *machine) deadlock() error {
	e := &DeadlockError{Plan: m.p.Name}
	for _, b := range m.blocks {
		for i, l := range b.threads {
			if b.running() && l.pc < len(b.program) {
				s := b.program[l.pc].step
				e.Waiting = append(e.Waiting, fmt.Sprintf("launch %d, %s (%s), thread %d", b.r.launch+1, s.Pos, s.Op.Name, i))
			}
		}
	}
	return e
}

// granule returns the largest power of two, at most a unit, that divides every start and end of a block.
func granule(layouts []*plan.Layout) int64 {
	g := int64(1)
	for {
		for _, l := range layouts {
			if l.Block%(2*g) != 0 || l.Alignment%(2*g) != 0 {
				return g
			}
		}
		if len(layouts) == 0 {
			return g
		}
		g *= 2
	}
}
