package plan_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/sketch"
)

// peerOffset is MSCCL++'s offset of chunk k, for a buffer of units·a bytes in n chunks.
func peerOffset(k, units, n, a int64) int64 {
	return a * (k*(units/n) + min(k, units%n))
}

func drawPlan(t *rapid.T) *sketch.Plan {
	ranks := rapid.IntRange(2, 9).Draw(t, "ranks")
	cf := rapid.IntRange(1, 7).Draw(t, "chunks")
	c := rapid.SampledFrom([]plan.Collective{plan.AllReduce, plan.AllGather, plan.ReduceScatter, plan.AllToAll,
		plan.Broadcast, plan.SendRecv}).Draw(t,
		"collective")
	in, out := cf, cf
	switch c {
	case plan.AllGather:
		out = cf * ranks
	case plan.ReduceScatter:
		in = cf * ranks
	case plan.AllToAll:
		in, out = cf*ranks, cf*ranks
	}
	p := sketch.Mesh("p", c, ranks, 1, in, out, rapid.IntRange(0, 9).Draw(t, "scratch"))
	p.Alignment = rapid.SampledFrom([]int64{1, 4, 16, 128}).Draw(t, "alignment")
	p.MaxSize = 1<<64 - 1
	return p
}

func TestLayoutProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		size := rapid.Uint64Range(0, 1<<44).Draw(t, "size")
		l, err := p.NewLayout(size)
		if err != nil {
			if !errors.Is(err, plan.ErrMessage) {
				t.Fatal(err)
			}
			t.Skip()
		}
		for _, b := range []plan.BufferType{plan.Input, plan.Output} {
			n := p.ChunkCount(0, b)
			end := int64(0)
			for k := range n {
				at, avail := l.Locate(k, 0)
				if at != end || at != l.Offset(k) || avail > l.Chunk || avail < 0 {
					t.Fatalf("chunk %d at %d with %d bytes, after %d", k, at, avail, end)
				}
				end = at + avail
				x := rapid.Int64Range(0, l.Chunk).Draw(t, "x")
				if at2, avail2 := l.Locate(k, x); avail2 != max(0, avail-x) || avail2 > 0 && at2 != at+x {
					t.Fatalf("byte %d of chunk %d at %d with %d bytes", x, k, at2, avail2)
				}
				if l.Even() && size%uint64(p.Alignment) == 0 {
					units := l.Size(0, b) / p.Alignment
					if want := peerOffset(int64(k), units, int64(n), p.Alignment); at != want {
						t.Fatalf("chunk %d at %d, MSCCL++ has it at %d", k, at, want)
					}
				}
			}
			if end != l.Size(0, b) {
				t.Fatalf("chunks end at %d of %d bytes", end, l.Size(0, b))
			}
		}
		s := plan.Slice{0, rapid.IntRange(1, 9).Draw(t, "slices")}
		chunks := rapid.IntRange(1, 4).Draw(t, "size")
		at := int64(0)
		for s.Index = range s.Count {
			lo, hi := l.Part(chunks, s)
			if lo != at || hi < lo {
				t.Fatalf("slice %d is [%d, %d) after %d", s.Index, lo, hi, at)
			}
			at = hi
			unit := rapid.Int64Range(1, 64).Draw(t, "unit") * p.Alignment
			if (hi-lo)/unit > 1000 {
				continue
			}
			from := lo
			for i := 0; from < hi; i++ {
				a, b := l.Range(chunks, s, unit, i)
				if a != from || b <= a || b-a > unit {
					t.Fatalf("window %d of [%d, %d) is [%d, %d)", i, lo, hi, a, b)
				}
				from = b
			}
			if a, b := l.Range(chunks, s, unit, 2000); a != b {
				t.Fatalf("window past the end is [%d, %d)", a, b)
			}
		}
		if at != int64(chunks)*l.Chunk {
			t.Fatalf("slices end at %d of %d", at, int64(chunks)*l.Chunk)
		}
	})
}

func TestLayoutNeverOverflows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlan(t)
		for r := range p.GPUs {
			p.GPUs[r].ScratchChunks = rapid.IntRange(0, 1<<20).Draw(t, "scratch")
		}
		l, err := p.NewLayout(rapid.Uint64().Draw(t, "size"))
		if err != nil {
			return
		}
		for r := range p.GPUs {
			for _, n := range []int64{l.Size(r, plan.Input), l.Size(r, plan.Output), p.Scratch(r, l.Chunk).Size} {
				if n < 0 || n > plan.Capacity.MaxOffset {
					t.Fatalf("%d bytes on rank %d", n, r)
				}
			}
		}
	})
}

func TestScratchPlanesAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := sketch.AllReduceLL(2, true, rapid.Bool().Draw(t, "double"))
		if rapid.Bool().Draw(t, "plain") {
			p.Emit(0, 1, sketch.Copy(plan.Local(plan.Input, 0, 1), plan.Local(plan.Scratch, 0, 1)))
		}
		big, small := rapid.Uint64Range(1, 1<<20).Draw(t, "big"), rapid.Uint64Range(1, 1<<20).Draw(t, "small")
		small = min(small, big)
		lb, _ := p.NewLayout(big)
		ls, _ := p.NewLayout(small)
		s := p.Scratch(0, lb.Chunk)
		type area struct{ lo, hi int64 }
		var areas []area
		n := p.GPUs[0].ScratchChunks
		for half := range uint64(2) {
			if half == 1 && !p.DoubleScratch {
				break
			}
			for _, l := range []*plan.Layout{lb, ls}[half:][:1] { // the halves hold messages of different sizes
				if p.UsesPlainScratch() {
					areas = append(areas, area{s.Plain[half], s.Plain[half] + int64(n)*l.Chunk})
				}
				areas = append(areas, area{s.Packets[half], s.Packets[half] + 2*int64(n)*l.Chunk})
			}
		}
		for i, a := range areas {
			if a.lo < 0 || a.hi > s.Size {
				t.Fatalf("area %v of %d bytes", a, s.Size)
			}
			for _, b := range areas[:i] {
				if a.lo < b.hi && b.lo < a.hi {
					t.Fatalf("%v and %v overlap", a, b)
				}
			}
		}
	})
}
