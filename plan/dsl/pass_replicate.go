package dsl

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// instance maps the parts of a program to the parts of copy i of n. Thread block, channel, semaphore or barrier v
// becomes v·n+i.
type instance struct {
	i, n   int
	policy ReplicationPolicy
}

func (x instance) id(v int) int { return v*x.n + x.i }

// index returns where the instance's share of a range of chunks begins, in the finer chunks of the replicated program.
func (x instance) index(index, size int) int {
	if x.policy == None {
		return index
	}
	return index*x.n + x.i*size
}

// chunks returns a buffer's length in the chunks of the replicated program.
func (x instance) chunks(v int) int {
	if x.policy == None {
		return v
	}
	return v * x.n
}

// slice returns the instance's part of an operation that moves data.
func (x instance) slice(o *operation) plan.Slice {
	if x.policy != None || x.n == 1 || !o.movesData() {
		return plan.Slice{Index: o.slice, Count: o.of}
	}
	return plan.Slice{Index: o.slice*x.n + x.i, Count: max(o.of, 1) * x.n}
}

// checkReplication records operations that the policy cannot replicate.
func (p *CollectiveProgram) checkReplication() {
	if p.spec.Instances == 1 || p.spec.ReplicationPolicy != None {
		return
	}
	for _, r := range p.ranks {
		for _, o := range r.ops {
			if o.channelType == plan.PortChannel && o.movesData() {
				p.fail(o.pos, ErrUsage, "use ReplicationPolicy Interleaved",
					"%s on a port channel cannot be shared by %d instances", o.kind, p.spec.Instances)
			}
		}
	}
}

// refine splits data operations so that any two that access a common chunk access the same range of chunks. Replication
// needs this: an instance works on its share of each range, and shares agree only if the ranges do.
func (p *CollectiveProgram) refine() {
	cuts := &cuts{p: p, mark: map[bufferKey][]bool{}}
	for changed := true; changed; {
		changed = false
		for _, r := range p.ranks {
			for _, o := range r.ops {
				if o.movesData() && cuts.spread(o) {
					changed = true
				}
			}
		}
	}
	for _, r := range p.ranks {
		var out []*operation
		for _, o := range r.ops {
			out = append(out, p.cut(o, cuts.inside(o))...)
		}
		r.ops = out
	}
}

// cut splits o at the given distances from the start of its chunks. A signal stays with the last piece.
func (p *CollectiveProgram) cut(o *operation, at []int) []*operation {
	if !o.movesData() || len(at) == 0 {
		return []*operation{o}
	}
	if o.loop != nil {
		p.fail(o.pos, ErrUsage, "use chunks of one size in the pipeline, or one instance",
			"%s in a pipeline: other operations use parts of its chunks, so %d instances cannot share it", o.kind,
			p.spec.Instances)
		return []*operation{o}
	}
	only := plan.FindOp(func(k *plan.OpKind) bool {
		return k.Does == plan.Moves && k.MovesLike(o.kind) && (len(k.Channels) == 0 || k.On(o.channelType))
	})
	if only == nil || o.kind.Does.Has(plan.Takes) {
		p.fail(o.pos, ErrUsage, "use chunks of one size, or one instance",
			"%s: other operations use parts of its chunks, and no op moves them without what else it does", o.kind)
		return []*operation{o}
	}
	size := o.dst[0].chunk.Size
	from := 0
	var out []*operation
	for _, to := range append(at, size) {
		c := o.clone()
		for x := range c.operands() {
			x.chunk.Index += from
			x.chunk.Size = to - from
		}
		if to != size {
			c.kind = only
		}
		out = append(out, c)
		from = to
	}
	return out
}

// bufferKey names a buffer of a rank.
type bufferKey struct {
	rank   int
	buffer BufferType
}

// cuts marks, for every buffer, the indices at which a range of chunks begins or ends.
type cuts struct {
	p    *CollectiveProgram
	mark map[bufferKey][]bool
}

func (c *cuts) of(k bufferKey) []bool {
	m := c.mark[k]
	if m == nil {
		m = make([]bool, c.p.extent(k.rank, k.buffer)+1)
		c.mark[k] = m
	}
	return m
}

// places returns the chunks that an operand accesses, on every rank.
func (x operand) places() []Chunk {
	if x.sw == nil {
		return []Chunk{x.chunk}
	}
	out := make([]Chunk, len(x.sw.ranks))
	for i, m := range x.sw.ranks {
		out[i] = x.sw.operand(m, x.chunk.Index, x.chunk.Size).chunk
	}
	return out
}

func (o *operation) places() []Chunk {
	var out []Chunk
	for x := range o.operands() {
		out = append(out, x.places()...)
	}
	return out
}

// inside returns the cuts of any operand of o strictly inside its chunks, as distances from their start.
func (c *cuts) inside(o *operation) []int {
	var at []int
	for _, ch := range o.places() {
		m := c.of(bufferKey{ch.Rank, ch.Buffer})
		for d := 1; d < ch.Size; d++ {
			if m[ch.Index+d] && !slices.Contains(at, d) {
				at = append(at, d)
			}
		}
	}
	slices.Sort(at)
	return at
}

// spread marks the ends of o's chunks, and copies cuts inside one of them to the others.
func (c *cuts) spread(o *operation) (changed bool) {
	at := c.inside(o)
	for _, ch := range o.places() {
		m := c.of(bufferKey{ch.Rank, ch.Buffer})
		for _, d := range append([]int{0, ch.Size}, at...) {
			if !m[ch.Index+d] {
				m[ch.Index+d], changed = true, true
			}
		}
	}
	return changed
}
