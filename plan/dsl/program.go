package dsl

import (
	"fmt"
	"iter"
	"slices"

	"github.com/goccl/goccl/plan"
)

// CollectiveProgram is a recorded collective: the operations of all ranks, in the order in which the author wrote them.
// It is an explicit value; programs share no state. It is not safe for concurrent use.
type CollectiveProgram struct {
	spec  AlgoSpec
	ranks []*rankState
	loop  *loop

	origins *origins // of the plan, while it is made
	errs    []error

	start Position // of the program
	lines map[uintptr]Position
	at    *Position // overrides the caller's line; see At
}

type rankState struct {
	ops        []*operation
	scratch    int // chunks reserved
	channels   map[ChannelType][]*channel
	channelsTo map[channelKey]int
	switches   []*SwitchChannel
	semaphores []*Semaphore
	hooks      []*Hook
	barriers   []*barrier
	barrierIDs map[string]*barrier
}

// NewCollectiveProgram starts a program. Err and Compile report errors in the spec.
func NewCollectiveProgram(spec AlgoSpec) *CollectiveProgram {
	p := &CollectiveProgram{spec: spec.withDefaults(), lines: map[uintptr]Position{}}
	p.start = callerPosition(p.lines)
	p.validate(p.start)
	for range min(max(p.spec.WorldSize, 0), 1<<16) {
		p.ranks = append(p.ranks, &rankState{
			channels: map[ChannelType][]*channel{}, channelsTo: map[channelKey]int{}, barrierIDs: map[string]*barrier{},
		})
	}
	return p
}

// At sets file and line for errors of the following operations, until the next At. An empty file restores the caller's
// line.
func (p *CollectiveProgram) At(file string, line int) {
	if file == "" {
		p.at = nil
		return
	}
	p.at = &Position{File: file, Line: line}
}

func (p *CollectiveProgram) position() Position {
	if p.at != nil {
		return *p.at
	}
	return callerPosition(p.lines)
}

// records reports whether operations of a rank are recorded. Where they are not, they cost next to nothing.
func (p *CollectiveProgram) records(rank int) bool { return p.spec.Only == nil || p.spec.Only(rank) }

func (p *CollectiveProgram) emit(o *operation) {
	if o.tb < Auto {
		p.fail(o.pos, ErrRange, "", "thread block %d", o.tb)
		return
	}
	if !p.records(o.rank) {
		return
	}
	o.loop = p.loop
	p.ranks[o.rank].ops = append(p.ranks[o.rank].ops, o)
}

// transfer emits a data operation, on one block, or its slices on the blocks of a group. It checks the operands: they
// lie where the operation says, have one size, and are in scratch if they are packets.
func (p *CollectiveProgram) transfer(o *operation, s settings) {
	ok := true
	for i := range o.dst {
		o.dst[i].packets = o.kind.Dst.At(i).Packets()
		ok = p.checkChunk(o.pos, "destination", o.dst[i].chunk) && ok
	}
	for i := range o.src {
		o.src[i].packets = o.kind.Src.At(i).Packets()
		ok = p.checkChunk(o.pos, "source", o.src[i].chunk) && ok
	}
	if !ok {
		return
	}
	raw := o.kind.Raw && o.channelType == plan.PortChannel // packets on both sides
	for x := range o.operands() {
		switch {
		case x.channel != nil && x.chunk.Rank != x.channel.dst:
			p.fail(o.pos, ErrMismatch, "", "%s on the %v: the remote chunk is of %v", o.kind, x.channel, x.chunk)
		case x.channel == nil && x.sw == nil && x.chunk.Rank != o.rank:
			p.fail(o.pos, ErrMismatch, "name other ranks' chunks as the remote ones of a channel",
				"%s at rank %d: the local chunk is of %v", o.kind, o.rank, x.chunk)
		case x.chunk.Size != o.dst[0].chunk.Size:
			p.fail(o.pos, ErrMismatch, "", "%s of %v into %v", o.kind, x.chunk, o.dst[0].chunk)
		case (x.packets || raw) && x.chunk.Buffer != Scratch:
			p.fail(o.pos, ErrUsage, "use a scratch buffer, and CopyPackets to fill it",
				"%s reads or writes packets in %v: packets live in scratch", o.kind, x.chunk)
		default:
			continue
		}
		return
	}
	o.bound = s.bound
	if s.group == nil {
		o.tb = s.tb
		p.emit(o)
		return
	}
	if !distinct(s.group) {
		p.fail(o.pos, ErrUsage, "list different thread blocks", "thread-block group %v", []int(s.group))
		return
	}
	if len(s.group) == 0 {
		p.fail(o.pos, ErrUsage, "", "%s by an empty thread-block group", o.kind)
		return
	}
	for i, b := range s.group {
		c := o.clone()
		c.tb, c.slice, c.of = b, i, len(s.group)
		if c.of == 1 {
			c.of = 0
		}
		p.emit(c)
	}
}

// distinct reports whether no number comes twice or is negative.
func distinct(numbers []int) bool {
	sorted := slices.Sorted(slices.Values(numbers))
	return len(sorted) == 0 || sorted[0] >= 0 && len(slices.Compact(sorted)) == len(numbers)
}

// reduce emits a reduction of a rank's chunk and others, which lie behind the channel unless that is nil.
func (p *CollectiveProgram) reduce(name plan.OpName, rank int, c *channel, acc Chunk, others []Chunk, s settings) {
	o := &operation{kind: name.Kind(), pos: p.position(), rank: rank, src: []operand{{chunk: acc}},
		dst: []operand{{chunk: acc}}, reduce: s.op}
	if s.into != nil {
		o.dst[0].chunk = *s.into
	}
	if c != nil {
		o.channelType = c.kind
	}
	for _, x := range others {
		o.src = append(o.src, operand{chunk: x, channel: c})
	}
	if len(others) == 0 {
		p.fail(o.pos, ErrUsage, "use Copy", "%s of one operand", o.kind)
		return
	}
	if !s.op.Valid() {
		p.fail(o.pos, ErrUsage, "use sum, min, max or prod", "reduction operator %q", string(s.op))
		return
	}
	p.transfer(o, s)
}

// barrier returns the id of a set of blocks, and assigns a new id per rank to a new set.
func (r *rankState) barrier(blocks []int) *barrier {
	sorted := slices.Sorted(slices.Values(blocks))
	key := fmt.Sprint(sorted)
	if b, ok := r.barrierIDs[key]; ok {
		return b
	}
	b := &barrier{id: len(r.barriers), blocks: sorted}
	r.barriers = append(r.barriers, b)
	r.barrierIDs[key] = b
	return b
}

func (o *operation) clone() *operation {
	c := *o
	c.src, c.dst = slices.Clone(o.src), slices.Clone(o.dst)
	c.channels, c.semaphores = slices.Clone(o.channels), slices.Clone(o.semaphores)
	return &c
}

// operand is a chunk and how to access it: locally when channel and sw are nil, through a channel, or through a switch
// group. In a switch group, chunk.Rank is the accessing rank and the chunk stands for the same place on every member.
type operand struct {
	chunk   Chunk
	channel *channel
	sw      *SwitchChannel
	packets bool // whose readers wait for their flags
}

// operation is one step of one thread block. Passes rewrite the slice of operations of a rank; an operation is never
// shared.
type operation struct {
	kind     *plan.OpKind
	pos      Position
	rank, tb int
	loop     *loop

	src, dst    []operand
	channelType ChannelType // of channels, or of the remote operands
	channels    []*channel  // signalled, waited for, flushed, or carrying a port transfer
	semaphores  []*Semaphore
	barrier     *barrier
	slice, of   int // thread-block group: slice of `of`; of is 0 without a group
	reduce      ReduceOp
	sync        SyncType
	bound       *plan.Bound // or nil

	origin *operation // in the fusion pass: the operation that this is a copy of
}

// synchronises reports whether only a few threads execute the operation, so that the block must synchronize around it.
func (o *operation) synchronises() bool { return o.kind.Synchronizes() }

// publishes reports whether other blocks or ranks may act on data of this block after the operation. A port channel's
// proxy reads the source once the trigger is pushed.
func (o *operation) publishes() bool {
	does := o.kind.Does
	return does&(plan.Adds|plan.Flushes) != 0 || does.Has(plan.Moves) && o.channelType == plan.PortChannel
}

// admits reports whether only after the operation the block may use data of others, or reuse its own buffers.
func (o *operation) admits() bool {
	return o.synchronises() && o.kind.Does&(plan.Takes|plan.Flushes) != 0
}

// meets reports whether the operation synchronizes all threads of the block.
func (o *operation) meets() bool { return o.kind.Does&(plan.Meets|plan.Joins) != 0 }

// isNop reports whether the operation synchronizes the threads and does nothing else.
func (o *operation) isNop() bool { return o.kind.Does == plan.Meets }

// nopBefore returns an operation that synchronizes the threads of o's block.
func nopBefore(o *operation) *operation {
	return &operation{kind: plan.Nop.Kind(), pos: o.pos, rank: o.rank, tb: o.tb, loop: o.loop}
}

// operands visits the sources, then the destinations.
func (o *operation) operands() iter.Seq[*operand] {
	return func(yield func(*operand) bool) {
		for _, side := range [2][]operand{o.src, o.dst} {
			for i := range side {
				if !yield(&side[i]) {
					return
				}
			}
		}
	}
}

// movesData reports whether the operation reads or writes buffers.
func (o *operation) movesData() bool { return len(o.src)+len(o.dst) > 0 }

type barrier struct {
	id     int
	blocks []int
}

type loop struct {
	unit      uint64 // bytes of one iteration
	numChunks int
	pos       Position
}

// BeginLoop opens a pipeline: the operations until EndLoop, in each thread block separately, run over slices of unit
// bytes of their chunks, over numChunks chunks in all. Pipelines do not nest.
func (p *CollectiveProgram) BeginLoop(unit uint64, numChunks int) {
	pos := p.position()
	if p.loop != nil {
		p.fail(pos, ErrUsage, "close the first with EndLoop", "a pipeline inside the pipeline of %v", p.loop.pos)
	}
	if unit == 0 || numChunks <= 0 {
		p.fail(pos, ErrRange, "", "pipeline of %d chunks in units of %d bytes", numChunks, unit)
	}
	if a := uint64(max(1, p.spec.BufferAlignment)); unit%a != 0 {
		p.fail(pos, ErrRange, "use a multiple", "pipeline unit of %d bytes, alignment %d", unit, a)
	}
	p.loop = &loop{unit: unit, numChunks: numChunks, pos: pos}
}

// EndLoop closes the pipeline.
func (p *CollectiveProgram) EndLoop() {
	if p.loop == nil {
		p.fail(p.position(), ErrUsage, "", "EndLoop without BeginLoop")
	}
	p.loop = nil
}

// Loop runs body inside a pipeline.
func (p *CollectiveProgram) Loop(unit uint64, numChunks int, body func()) {
	p.BeginLoop(unit, numChunks)
	defer p.EndLoop()
	body()
}
