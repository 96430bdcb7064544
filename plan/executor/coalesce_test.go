package executor

import (
	"crypto/sha256"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/programs"
)

func merged(t *testing.T, p *plan.Plan, rank int) *program {
	t.Helper()
	prog, err := compile(p, rank, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := coalesced(p, sha256.Sum256(p.Encode()), prog); err != nil {
		t.Fatal(err)
	}
	return prog
}

// moved summarizes the data movement of a program, however it is divided: bytes moved, by source and destination
// memory.
func moved(blocks [][]instr) map[string]float64 {
	out := map[string]float64{}
	for _, list := range blocks {
		for i := range list {
			for k := range list[i].moves {
				m := &list[i].moves[k]
				for i := range m.Dst {
					one := move{Move: plan.Move{Src: m.Src, Dst: m.Dst[i : i+1]}}
					out[one.key(false)] += float64(m.Src[0].Size) / float64(max(1, m.slice.Count))
				}
			}
		}
	}
	return out
}

func signals(blocks [][]instr, rank *program) (out, in []uint64) {
	out, in = make([]uint64, rank.links), make([]uint64, rank.links)
	for _, list := range blocks {
		for i := range list {
			for k, l := range list[i].links {
				switch {
				case list[i].code == plan.CodeSignal || list[i].signal:
					out[l] += list[i].times[k]
				case list[i].code == plan.CodeWait:
					in[l] += list[i].times[k]
				}
			}
		}
	}
	return out, in
}

// TestMergedProgramsDoTheSame compares signals and bytes of merged programs with the signals and bytes of the plan's
// blocks, for all shipped programs.
func TestMergedProgramsDoTheSame(t *testing.T) {
	for _, spec := range programs.All() {
		for _, o := range []programs.Options{{Ranks: 2}, {Ranks: 3, Instances: 3}, {Ranks: 5, InPlace: true}} {
			if spec.Supports(o) != nil {
				continue
			}
			p, err := spec.Build(o)
			if err != nil {
				t.Fatal(err)
			}
			for r := range o.Ranks {
				prog := merged(t, p, r)
				if prog.merged == nil {
					continue
				}
				before, after := moved(prog.blocks), moved(prog.merged)
				for k, n := range before {
					if d := after[k] - n; d > 1e-9 || d < -1e-9 {
						t.Errorf("%s, %+v, rank %d: %v chunks were moved between two memories, merged %v", spec.Name, o, r, n, after[k])
					}
				}
				out, in := signals(prog.blocks, prog)
				mergedOut, mergedIn := signals(prog.merged, prog)
				for l := range out {
					if out[l] != mergedOut[l] || in[l] != mergedIn[l] {
						t.Errorf("%s, %+v, rank %d, link %d: %d signals and %d waits, merged %d and %d", spec.Name, o, r, l, out[l],
							in[l], mergedOut[l], mergedIn[l])
					}
				}
			}
		}
	}
}

// TestMergingGivesOneBlock covers the programs that must be fast on the host device.
func TestMergingGivesOneBlock(t *testing.T) {
	for name, want := range map[string]int{"allreduce_oneshot_ll": 2, "allreduce_twoshot_ll": 3, "allreduce_direct": 5,
		"allreduce_switch": 0} {
		p, err := programs.Build(name, programs.Options{Ranks: 8})
		if err != nil {
			t.Fatal(err)
		}
		prog := merged(t, p, 0)
		if len(prog.merged) != 1 || want > 0 && len(prog.merged[0]) != want {
			t.Errorf("%s: %d blocks were merged to %d, the first of which has %d ops, want %d", name, len(prog.blocks),
				len(prog.merged), len(prog.merged[0]), want)
		}
	}
}

// TestRehearsalRefusesWhatWouldGetStuck uses a plan whose blocks run concurrently but not in lock-step: block 1 of rank
// 0 first waits for a signal that rank 1 sends only after block 0 of rank 0 has completed both of its ops.
func TestRehearsalRefusesWhatWouldGetStuck(t *testing.T) {
	p := crossed(t)
	if _, err := Check(p); err != nil {
		t.Fatalf("the plan is right: %v", err)
	}
	prog, err := compile(p, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	prog.coalesce()
	if len(prog.merged) >= len(prog.blocks) {
		t.Fatalf("%d blocks, merged %d: the test shows nothing", len(prog.blocks), len(prog.merged))
	}
	if prog = merged(t, p, 0); prog.merged != nil {
		t.Error("blocks were merged that wait for each other")
	}
}

// crossed is an all-gather over 2 ranks with two more channels.
func crossed(t *testing.T) *plan.Plan {
	t.Helper()
	p := dsl.NewCollectiveProgram(dsl.AlgoSpec{Name: "crossed", Collective: dsl.AllGather(2, 1, false)})
	for r := range 2 {
		me, to, tb := p.Rank(r), p.MemoryChannel(1-r, r), dsl.TB(2*(1-r)) // block 2 of rank 0, block 0 of rank 1
		me.Copy(me.Output().Chunk(r), me.Input().Chunk(0), tb)
		to.Signal(dsl.Relaxed(), tb)
		to.Wait(dsl.Relaxed(), tb)
		to.Put(p.Rank(1-r).Output().Chunk(r), me.Input().Chunk(0), tb)
		to.Signal(tb)
		to.Wait(tb)
	}
	for k := range 2 {
		there, back := p.MemoryChannel(0, 1), p.MemoryChannel(1, 0)
		back.Wait(dsl.TB(k))
		back.Signal(dsl.TB(k))
		there.Signal(dsl.TB(0))
		there.Wait(dsl.TB(0))
	}
	out, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
