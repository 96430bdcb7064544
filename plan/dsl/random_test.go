package dsl

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/interp"
)

// known is a chunk whose content the generator tracks.
type known struct {
	chunk Chunk
	of    []Contribution
}

// randomProgram generates a random program that is correct by construction: every step writes a fresh scratch chunk, so
// its content is known, and the outputs define the program's own collective. It uses chunks of several lengths, all
// passes, and both ways to move data.
type randomProgram struct {
	t      *rapid.T
	p      *CollectiveProgram
	ranks  int
	tb     Option
	have   [][]known
	memory [][]*MemoryChannel
	fresh  []*Buffer
	used   []int
	post   map[[2]int][]Contribution
}

const (
	randomInputs = 3
	randomFresh  = 64
)

func newRandomProgram(t *rapid.T) *randomProgram {
	g := &randomProgram{t: t, ranks: rapid.IntRange(2, 4).Draw(t, "ranks"), post: map[[2]int][]Contribution{}}
	g.tb = TB(rapid.SampledFrom([]int{Auto, 0}).Draw(t, "tb"))
	spec := AlgoSpec{
		Name: "random", Collective: Custom("random", g.ranks, randomInputs, randomInputs, false,
			func(rank, chunk int) []Contribution { return g.post[[2]int{rank, chunk}] }),
		Instances: rapid.IntRange(1, 3).Draw(t, "instances"), NoFusion: rapid.Bool().Draw(t, "nofusion"),
		ReplicationPolicy:      rapid.SampledFrom([]ReplicationPolicy{Interleaved, None}).Draw(t, "policy"),
		UseDoubleScratchBuffer: true,
	}
	g.p = NewCollectiveProgram(spec)
	g.write()
	return g
}

func (g *randomProgram) pairs(f func(a, b int)) {
	for a := range g.ranks {
		for b := range g.ranks {
			if a != b {
				f(a, b)
			}
		}
	}
}

func (g *randomProgram) write() {
	for r := range g.ranks {
		g.memory = append(g.memory, make([]*MemoryChannel, g.ranks))
		g.fresh = append(g.fresh, g.p.Rank(r).Scratch(randomFresh))
		g.used = append(g.used, 0)
		var have []known
		in := g.p.Rank(r).Input()
		for i := range randomInputs {
			have = append(have, known{in.Chunk(i), []Contribution{{r, i}}})
		}
		have = append(have, known{in.Slice(0, 2), []Contribution{{r, 0}, {r, 1}}}) // of a range: one contribution per chunk
		g.have = append(g.have, have)
	}
	g.pairs(func(a, b int) { g.memory[a][b] = g.p.MemoryChannel(b, a) })
	g.pairs(func(a, b int) { g.memory[a][b].Signal(g.tb, Relaxed()) })
	g.pairs(func(a, b int) { g.memory[a][b].Wait(g.tb, Relaxed()) })
	for i := range rapid.IntRange(1, 8).Draw(g.t, "steps") {
		g.step(i)
	}
	for r := range g.ranks {
		for i := range randomInputs {
			k := g.pick(r, fmt.Sprintf("output %d %d", r, i), 1)
			g.p.Rank(r).Copy(g.p.Rank(r).Output().Chunk(i), k.chunk, g.tb)
			g.post[[2]int{r, i}] = k.of
		}
	}
	g.pairs(func(a, b int) { g.memory[a][b].Signal(g.tb) })
	g.pairs(func(a, b int) { g.memory[a][b].Wait(g.tb) })
}

// pick draws a known chunk of r; size 0 means any.
func (g *randomProgram) pick(r int, label string, size int) known {
	var list []known
	for _, k := range g.have[r] {
		if size == 0 || k.chunk.Size == size {
			list = append(list, k)
		}
	}
	return rapid.SampledFrom(list).Draw(g.t, label)
}

func (g *randomProgram) new(r, size int) Chunk {
	c := g.fresh[r].Slice(g.used[r], g.used[r]+size)
	g.used[r] += size
	return c
}

// learn records the content of a range of chunks, and of each of its chunks.
func (g *randomProgram) learn(c Chunk, of []Contribution) {
	g.have[c.Rank] = append(g.have[c.Rank], known{c, of})
	if c.Size > 1 {
		per := len(of) / c.Size
		for i := range c.Size {
			part := c
			part.Index, part.Size = c.Index+i, 1
			g.have[c.Rank] = append(g.have[c.Rank], known{part, of[i*per : (i+1)*per]})
		}
	}
}

func (g *randomProgram) step(i int) {
	label := func(s string) string { return fmt.Sprintf("%s %d", s, i) }
	r := rapid.IntRange(0, g.ranks-1).Draw(g.t, label("rank"))
	q := (r + rapid.IntRange(1, g.ranks-1).Draw(g.t, label("peer"))) % g.ranks
	switch rapid.SampledFrom([]string{"put", "put", "packets", "reduce", "reduce+put", "copy"}).Draw(g.t, label("step")) {
	case "put":
		k := g.pick(r, label("source"), 0)
		dst := g.new(q, k.chunk.Size)
		g.memory[r][q].Put(dst, k.chunk, g.tb)
		g.memory[r][q].Signal(g.tb)
		g.memory[q][r].Wait(g.tb)
		g.learn(dst, k.of)
	case "packets":
		k := g.pick(r, label("source"), 0)
		packets, dst := g.new(q, k.chunk.Size), g.new(q, k.chunk.Size)
		g.memory[r][q].PutPackets(packets, k.chunk, g.tb)
		g.p.Rank(q).UnpackPackets(dst, packets, g.tb)
		g.learn(dst, k.of)
	case "copy":
		k := g.pick(r, label("source"), 0)
		dst := g.new(r, k.chunk.Size)
		g.p.Rank(r).Copy(dst, k.chunk, g.tb)
		g.learn(dst, k.of)
	default:
		a, b := g.pick(r, label("acc"), 1), g.pick(r, label("other"), 1)
		for _, x := range a.of {
			for _, y := range b.of {
				if x == y {
					return
				}
			}
		}
		sum := append(append([]Contribution(nil), a.of...), b.of...)
		dst := g.new(r, 1)
		g.p.Rank(r).Reduce(a.chunk, []Chunk{b.chunk}, Into(dst), g.tb)
		g.learn(dst, sum)
		if rapid.Bool().Draw(g.t, label("send")) {
			there := g.new(q, 1)
			g.memory[r][q].Put(there, dst, g.tb)
			g.memory[r][q].Signal(g.tb)
			g.memory[q][r].Wait(g.tb)
			g.learn(there, sum)
		}
	}
}

// Random programs compile, deterministically, to plans that the verifier proves and for which the interpreter gets the
// expected result.
func TestRandomProgramsAreRightAfterAllPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newRandomProgram(t)
		out, err := g.p.Compile()
		if err != nil {
			t.Fatal(err)
		}
		data := out.Encode()
		again, err := g.p.Compile()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, again.Encode()) {
			t.Fatal("two compilations differ")
		}
		read, err := plan.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read.Encode(), data) {
			t.Fatal("reading and writing changes the plan")
		}
		if _, err := verify.Check(out, verify.Options{}); err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		size := uint64(out.GPUs[0].InputChunks) * uint64(out.Alignment)
		if err := interp.CheckCollective(out, []uint64{size, 2 * size, size},
			rapid.Uint64().Draw(t, "interleaving")); err != nil {
			t.Fatalf("verified, and yet: %v\n%s", err, data)
		}
	})
}
