package executor

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
)

// TestShortMovesAreThoseOfChunks compares moves of many chunks at once with the same moves chunk by chunk, as
// plan.Layout defines them.
func TestShortMovesAreThoseOfChunks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"allreduce_direct", "allgather_direct", "reducescatter_direct", "alltoall_direct"} {
		p, err := programs.Build(name, programs.Options{Ranks: 3})
		if err != nil {
			t.Fatal(err)
		}
		x := &ExecutionPlan{e: &Executor{}, plan: p}
		for range 300 {
			pl, err := p.NewLayout(3 * uint64(1+rnd.IntN(200)))
			if err != nil {
				t.Fatal(err)
			}
			l := x.newLayout(pl)
			place := func(plane plan.Plane, size int) plan.Place {
				return plan.Place{Plane: plane, Index: rnd.IntN(3*l.Period - size + 1), Size: size}
			}
			size := 1 + rnd.IntN(3)
			m := &move{Move: plan.Move{Src: []plan.Place{place(plan.InputPlane, size), place(plan.ScratchPlane, size)},
				Dst: []plan.Place{place(plan.OutputPlane, size)}}}
			type byteMove struct{ at, from, to int64 }
			run := func(l *layout) (moves []byteMove) {
				for at, hi := int64(0), int64(size)*l.Chunk; at < hi; {
					n, real := l.short(m, at, hi-at)
					if n <= 0 || real > n {
						t.Fatalf("%s, %d bytes: %d of %d bytes from %d on", name, l.Message, real, n, at)
					}
					from, _ := l.Locate(m.Src[0].Index+int(at/l.Chunk), at%l.Chunk)
					to, _ := l.Locate(m.Dst[0].Index+int(at/l.Chunk), at%l.Chunk)
					for k := range real {
						moves = append(moves, byteMove{at + k, from + k, to + k})
					}
					at += n
				}
				return moves
			}
			byChunk := *l
			byChunk.blocks = false
			got, want := run(l), run(&byChunk)
			if len(got) != len(want) {
				t.Fatalf("%s, %d bytes, %+v: %d bytes are moved, chunk by chunk %d", name, l.Message, m.Move, len(got), len(want))
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%s, %d bytes, %+v: moves %v, chunk by chunk %v", name, l.Message, m.Move, got[i], want[i])
				}
			}
		}
	}
}

// TestKernelKnowsTheCodes compares the codes in the table of ops with the codes in the kernel's source.
func TestKernelKnowsTheCodes(t *testing.T) {
	var source []byte
	files, err := filepath.Glob("../../kernels/executor/*.cuh")
	for _, f := range files {
		text, e := os.ReadFile(f)
		source, err = append(source, text...), errors.Join(err, e)
	}
	if err != nil {
		t.Fatal(err)
	}
	kernel := map[string]plan.Code{}
	defined := map[plan.Code]bool{}
	for _, m := range regexp.MustCompile(`\bcode(\w+) = (\d+)[,;]`).FindAllSubmatch(source, -1) {
		n, err := strconv.Atoi(string(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		if defined[plan.Code(n)] {
			t.Errorf("code %d has two meanings in the kernel", n)
		}
		kernel[string(m[1])], defined[plan.Code(n)] = plan.Code(n), true
	}
	for name, want := range map[string]plan.Code{
		"Nop": plan.CodeNop, "Barrier": plan.CodeBarrier, "Signal": plan.CodeSignal, "Wait": plan.CodeWait,
		"Flush":   plan.CodeFlush,
		"Acquire": plan.CodeAcquire, "Release": plan.CodeRelease, "Data": plan.CodeData, "Loop": plan.CodeLoop,
		"EndLoop": plan.CodeEndLoop,
	} {
		if got, ok := kernel[name]; !ok || got != want {
			t.Errorf("code%s is %d in the kernel (%v) and %d in the table", name, got, ok, want)
		}
	}
	for _, k := range plan.OpKinds() {
		if !defined[k.Code] {
			t.Errorf("the kernel has no code %d, which %s needs", k.Code, k.Name)
		}
	}
}
