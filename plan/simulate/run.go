package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
)

// ErrHang is the class of the error for a plan that stops before its end.
var ErrHang = errors.New("the plan hangs")

// ErrUnreachable is the class of the error for a plan that loads, stores or signals between hosts of the machine
// without port channels, or between GPUs of a fabric that no way joins.
var ErrUnreachable = errors.New("no direct link")

// Run simulates one launch of p on m for a message of size bytes, as Plan.MinSize and nccl-tests count them: the whole
// buffer of an all-reduce, the gathered buffer of an all-gather.
//
//  1. load: resolve ops, channels and addresses (plan.Program, plan.Layout)
//  2. every block starts at time Launch; each event resumes a block, issues a segment, or delivers a signal or packets
//  3. a block continues within one event while no earlier event is queued; a block that must wait is put into one list
//  4. when no event is left, unfinished blocks hang
func Run(p *plan.Plan, m *Machine, size int64) (*Result, error) {
	mod, err := load(p, nil, m, size)
	if err != nil {
		return nil, err
	}
	return mod.run(size)
}

func (m *model) run(size int64) (*Result, error) {
	r := newRunner(m)
	r.run()
	if err := r.hang(); err != nil {
		return nil, err
	}
	return r.result(size), nil
}

const none = int32(-1)

// blockState is the state of a thread block.
type blockState struct {
	code    []instr // the ops, or the body of the pipeline it is in
	pc      int
	outer   int   // pc of the pipeline; only inside
	iter    int32 // of the pipeline
	inside  bool
	started bool // the op at pc has begun
	freed   bool // the barrier at pc has released the block
	done    bool

	ready  float64 // when the op at pc could have begun if its packets had been there; −1: not yet
	last   int32   // its latest span
	next   int32   // in a list of waiting blocks
	stores float64 // when its latest store arrives

	flow, segment, segments int     // of the current data op
	issue, end              float64 // next issue time; earliest end of the op
	row                     float64 // how long the block is busy with one segment of each flow
	lead                    float64 // from the issue of a store until it leaves
	left                    float64 // when the latest segment of the row has left
}

type span struct {
	in         *instr
	start, end float64
	woke       float64 // when the last event that it waited for arrived; start if it did not wait
	block      int32
	iter       int32
	prev       int32 // the block's previous span
	cause      int32 // the span of another block that unblocked this one, or none
}

type runner struct {
	*model
	net    *network
	q      queue
	states []blockState
	spans  []span
	events int

	counterWait, packetsWait, barrierWait []int32 // heads of lists of waiting blocks
	value                                 []int32 // of counters
	// Of packets: the share of a chunk that has come, and when the first came.
	arrived, first    []float64
	met               []int32
	linkEnd, linkLeft []float64
}

func filled(n int) []int32 { return slices.Repeat([]int32{none}, n) }

func newRunner(m *model) *runner {
	r := &runner{
		model: m, net: newNetwork(m.machine, len(m.plan.GPUs), m.symmetry), states: make([]blockState, len(m.blocks)),
		counterWait: filled(len(m.counters)), packetsWait: filled(m.nPackets), barrierWait: filled(m.nBarrier),
		value: slices.Clone(m.counters), arrived: make([]float64, m.nPackets), first: make([]float64, m.nPackets),
		met: make([]int32, m.nBarrier), linkEnd: make([]float64, m.links), linkLeft: make([]float64, m.links),
	}
	for b := range r.states {
		r.states[b] = blockState{code: m.blocks[b].code, last: none, next: none, ready: -1}
		at := m.begin
		if m.blocks[b].caller(m.plan) {
			at = m.blocks[b].begin
		}
		r.q.push(event{at: at, kind: resumeEvent, id: int32(b), by: none})
	}
	return r
}

func (r *runner) run() {
	for len(r.q.heap) > 0 {
		e := r.q.pop()
		r.events++
		switch e.kind {
		case resumeEvent:
			r.resume(e.id, e.at, e.by)
		case segmentEvent:
			r.issue(e.id)
		case counterEvent:
			r.value[e.id]++
			r.wake(&r.counterWait[e.id], e.at, e.by)
		case packetEvent:
			r.arrived[e.id] += e.x
			r.wake(&r.packetsWait[e.id], e.at, e.by)
		}
	}
}

// wake resumes every block of a list. Each checks again whether it must wait.
func (r *runner) wake(head *int32, at float64, by int32) {
	b := *head
	*head = none
	for b != none {
		next := r.states[b].next
		r.states[b].next = none
		r.resume(b, at, by)
		b = next
	}
}

// park puts a block into a list.
func (r *runner) park(b int32, head *int32) {
	r.states[b].next = *head
	*head = b
}

// resume runs block b from time now until it waits, issues segments, or an earlier event is due. by is the span of
// another block that caused it, or none.
func (r *runner) resume(b int32, now float64, by int32) {
	s := &r.states[b]
	for {
		if s.pc == len(s.code) {
			if !s.inside {
				s.done = true
				return
			}
			pipeline := &r.blocks[b].code[s.outer]
			s.iter++
			s.pc = 0
			if s.iter == pipeline.iters {
				s.code, s.pc, s.iter, s.inside = r.blocks[b].code, s.outer+1, 0, false
			}
			continue
		}
		in := &s.code[s.pc]
		if in.does.Has(plan.Loops) {
			s.outer, s.code, s.pc, s.iter, s.inside = s.pc, in.body, 0, 0, true
			continue
		}
		if !s.started {
			s.started = true
			r.spans = append(r.spans, span{in: in, start: now, woke: now, block: b, iter: s.iter, prev: s.last, cause: none})
			s.last = int32(len(r.spans) - 1)
			if by != none {
				r.spans[s.last].cause = by
				by = none
			}
			now += r.machine.Op
			if len(r.q.heap) > 0 && r.q.heap[0].at < now {
				r.q.push(event{at: now, kind: resumeEvent, id: b, by: none})
				return
			}
		}
		if by != none {
			r.spans[s.last].cause, r.spans[s.last].woke = by, now
			by = none
		}
		end, ok := r.perform(b, s, in, now)
		if !ok {
			return
		}
		r.complete(s, end)
		now = end
		if len(r.q.heap) > 0 && r.q.heap[0].at < now {
			r.q.push(event{at: now, kind: resumeEvent, id: b, by: none})
			return
		}
	}
}

func (r *runner) complete(s *blockState, end float64) {
	r.spans[s.last].end = end
	s.pc++
	s.started = false
}

// perform runs the op and returns its end. It returns false when the block waits or the op continues in segments.
func (r *runner) perform(b int32, s *blockState, in *instr, now float64) (float64, bool) {
	m := r.machine
	switch {
	case in.does.Has(plan.Moves):
		return r.move(b, s, in, now)
	case in.does.Has(plan.Meets):
		return now + m.Nop, true
	case in.does.Has(plan.Joins):
		return r.meet(b, s, in, now)
	case in.does.Has(plan.Adds):
		if in.fenced {
			now = max(now, s.stores) + m.Fence
		}
		for _, id := range in.releases {
			r.q.push(event{at: now + m.Semaphore, kind: counterEvent, id: id, by: s.last})
		}
		r.signal(b, s, in, now)
		return now, true
	case in.does.Has(plan.Flushes):
		for _, l := range in.links {
			now = max(now, r.linkLeft[l])
		}
		return now, true
	}
	for _, c := range in.waits {
		if r.value[c] == 0 {
			r.park(b, &r.counterWait[c])
			return now, false
		}
	}
	for _, c := range in.waits {
		r.value[c]--
	}
	return now, true
}

// busy is how long the threads of a block are busy with an op.
func (r *runner) busy(in *instr) float64 {
	b := &r.machine.Block
	if r.general {
		return in.work[0].micros(b, r.machine.Pull, false)
	}
	return in.work[1].micros(b, r.machine.Pull, true)
}

func (r *runner) signal(b int32, s *blockState, in *instr, now float64) {
	m := r.machine
	rank := r.blocks[b].rank
	for i, c := range in.signals {
		link := in.links[i]
		far := m.latency(rank, r.linkPeer[link])
		at := now + m.Flag + far
		if r.linkPort[link] {
			at = max(r.net.port(rank, Proxy).reserve(now, m.Rail.Proxy)+m.Rail.Proxy, r.linkEnd[link])
			switch {
			case r.machine.sameHost(rank, r.linkPeer[link]):
				at += m.Flag
			case m.Fabric != nil:
				at = max(at, now+m.Rail.Proxy+far)
			default:
				at = max(at, now+m.Rail.Proxy+m.Rail.Latency)
			}
		}
		if c != none {
			r.q.push(event{at: at, kind: counterEvent, id: c, by: s.last})
		}
	}
}

// meet is a barrier among blocks of a rank. The last block to arrive releases all.
func (r *runner) meet(b int32, s *blockState, in *instr, now float64) (float64, bool) {
	if s.freed {
		s.freed = false
		return now, true
	}
	r.met[in.barrier]++
	if r.met[in.barrier] < in.blocks {
		r.park(b, &r.barrierWait[in.barrier])
		return 0, false
	}
	r.met[in.barrier] = 0
	at := now + r.machine.Barrier
	for w := r.barrierWait[in.barrier]; w != none; {
		next := r.states[w].next
		r.states[w].next, r.states[w].freed = none, true
		r.q.push(event{at: at, kind: resumeEvent, id: w, by: s.last})
		w = next
	}
	r.barrierWait[in.barrier] = none
	return at, true
}

// move starts a data op: it waits for packets, then accesses the GPU's own memory while segments are sent.
func (r *runner) move(b int32, s *blockState, in *instr, now float64) (float64, bool) {
	m := r.machine
	threshold := 1.0
	if s.inside {
		threshold = float64(s.iter+1) / float64(r.blocks[b].code[s.outer].iters)
	}
	if s.ready < 0 {
		s.ready = now
	}
	begin := s.ready
	for _, p := range in.needs {
		if r.arrived[p.chunk] < threshold-1e-9 {
			r.park(b, &r.packetsWait[p.chunk])
			return 0, false
		}
		begin = max(begin, r.first[p.chunk])
	}
	s.ready = -1
	now += float64(in.places) * m.Operand
	// Packets that came before the last are done with.
	busy := r.busy(in)
	busy = max(begin+busy-now, min(busy, m.Block.Round))
	end := now + busy
	if in.local > 0 {
		d := micros(in.local, m.Memory)
		end = max(end, r.net.port(r.blocks[b].rank, Memory).reserve(now, d)+d)
	}
	for _, p := range in.sends {
		r.q.push(event{at: end, kind: packetEvent, id: p.chunk, by: s.last, x: p.share})
	}
	if len(in.flows) == 0 {
		return end, true
	}
	most := 0.0
	for i := range in.flows {
		if in.flows[i].class != portFlow {
			most = max(most, in.flows[i].bytes)
		}
	}
	s.flow, s.segment, s.issue, s.end = 0, 0, now, end
	s.segments = min(maxSegments, max(1, int(most/segmentBytes)))
	s.row = busy / float64(s.segments)
	s.lead = min(m.Block.Round, s.row)
	r.net.open(r.blocks[b].rank, in, 1)
	if r.issueAll(b, s, in) {
		return s.end, true
	}
	return 0, false
}

// hang returns an error that lists the blocks that wait forever, or nil.
func (r *runner) hang() error {
	var stuck []string
	for b := range r.states {
		if s := &r.states[b]; !s.done {
			in := &s.code[s.pc]
			stuck = append(stuck, fmt.Sprintf("%v: %s", in.pos, in.name))
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	return fmt.Errorf("simulate: plan %s: %d thread blocks wait for ever, among them %s: %w", r.plan.Name, len(stuck),
		strings.Join(stuck[:min(8, len(stuck))], "; "), ErrHang)
}
