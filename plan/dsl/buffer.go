package dsl

import (
	"fmt"

	"github.com/goccl/goccl/plan"
)

// BufferType is one of the three buffers of a rank, with the names that plans use.
type BufferType = plan.BufferType

// The buffers.
const (
	Input   = plan.Input
	Output  = plan.Output
	Scratch = plan.Scratch
)

func bufferName(b BufferType) string {
	if b.Valid() {
		return plan.PlaneOf(b, false).String()
	}
	return fmt.Sprintf("buffer %q", string(b))
}

// Chunk is a range of whole chunks of one buffer of one rank: [Index, Index+Size).
type Chunk struct {
	Rank   int        `json:"rank"`
	Buffer BufferType `json:"buffer"`
	Index  int        `json:"index"`
	Size   int        `json:"size"`
}

// End returns the index after the last chunk.
func (c Chunk) End() int { return c.Index + c.Size }

// Overlaps reports whether c and d share a chunk.
func (c Chunk) Overlaps(d Chunk) bool {
	return c.Rank == d.Rank && c.Buffer == d.Buffer && c.Index < d.End() && d.Index < c.End()
}

// String returns text like "rank 1 output[2:4]".
func (c Chunk) String() string {
	return fmt.Sprintf("rank %d %s[%d:%d]", c.Rank, bufferName(c.Buffer), c.Index, c.End())
}

// Buffer is a view of one buffer of one rank. An in-place program has one buffer with two views.
type Buffer struct {
	p      *CollectiveProgram
	rank   int
	buffer BufferType
	offset int // of the view in the buffer, in chunks
	size   int
}

// Rank returns the owner.
func (b *Buffer) Rank() int { return b.rank }

// Size returns the length of the view in chunks.
func (b *Buffer) Size() int { return b.size }

// Slice returns the chunks [from, to) of the view.
func (b *Buffer) Slice(from, to int) Chunk {
	c := Chunk{Rank: b.rank, Buffer: b.buffer, Index: b.offset + from, Size: to - from}
	if from < 0 || to > b.size || from >= to {
		b.p.fail(b.p.position(), ErrRange, "", "slice [%d:%d] of the %s buffer of rank %d, which has %d chunks", from, to,
			bufferName(b.buffer), b.rank, b.size)
		return Chunk{Rank: b.rank, Buffer: b.buffer, Index: b.offset}
	}
	return c
}

// Chunk returns the single chunk i.
func (b *Buffer) Chunk(i int) Chunk { return b.Slice(i, i+1) }

// All returns the whole view.
func (b *Buffer) All() Chunk { return b.Slice(0, b.size) }

// views returns the input and the output of a rank. In place, both are views of the larger of the two buffers:
// all-gather's input is a part of its output, reduce-scatter's output is a part of its input, and for other collectives
// both are the input.
func (p *CollectiveProgram) views(rank int) (in, out *Buffer) {
	c := &p.spec.Collective
	in = &Buffer{p: p, rank: rank, buffer: Input, size: c.InputChunks}
	out = &Buffer{p: p, rank: rank, buffer: Output, size: c.OutputChunks}
	if !p.spec.InPlace {
		return in, out
	}
	switch {
	case c.InputChunks < c.OutputChunks:
		in.buffer, in.offset = Output, rank*c.InputChunks
	case c.OutputChunks < c.InputChunks:
		out.buffer, out.offset = Input, rank*c.OutputChunks
	default:
		out.buffer = Input
	}
	return in, out
}

// extent returns the length in chunks of a whole buffer, as operations index it.
func (p *CollectiveProgram) extent(rank int, b BufferType) int {
	c := &p.spec.Collective
	switch b {
	case Input:
		return c.InputChunks
	case Output:
		return c.OutputChunks
	}
	return p.ranks[rank].scratch
}

// checkChunk reports whether c lies in its buffer, and records an error otherwise.
func (p *CollectiveProgram) checkChunk(pos Position, what string, c Chunk) bool {
	if c.Size == 0 { // Slice has already recorded an error
		return false
	}
	if c.Rank < 0 || c.Rank >= len(p.ranks) {
		p.fail(pos, ErrRange, "", "%s %v: there are %d ranks", what, c, len(p.ranks))
		return false
	}
	if !c.Buffer.Valid() {
		p.fail(pos, ErrRange, `use "i", "o" or "s"`, "%s %v: unknown buffer", what, c)
		return false
	}
	if n := p.extent(c.Rank, c.Buffer); c.Index < 0 || c.Size < 0 || c.End() > n {
		p.fail(pos, ErrRange, "", "%s %v: the buffer has %d chunks", what, c, n)
		return false
	}
	return true
}
