package dsl

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/verify"
)

// switchAllReduce is the torch guide's example: signal all, reduce and broadcast one chunk per rank through the switch,
// signal all.
func switchAllReduce(ranks, instances int) *CollectiveProgram {
	p := NewCollectiveProgram(AlgoSpec{
		Name: "allreduce_nvls", Collective: AllReduce(ranks, 1, true), Instances: instances, MinMessageSize: 1 << 20,
		MaxMessageSize: 48 << 30,
		Tags:           map[string]int{"nvls": 1},
	})
	all := make([]int, ranks)
	channels := make([]map[int]*MemoryChannel, ranks)
	for gpu := range ranks {
		all[gpu] = gpu
		channels[gpu] = map[int]*MemoryChannel{}
		for peer := range ranks {
			if peer != gpu {
				channels[gpu][peer] = p.MemoryChannel(peer, gpu)
			}
		}
	}
	nvls := p.SwitchChannel(all, Input)
	handshake := func(opts ...Option) {
		for gpu := range ranks {
			for peer := range ranks {
				if peer != gpu {
					channels[gpu][peer].Signal(append(opts, TB(0))...)
				}
			}
			for peer := range ranks {
				if peer != gpu {
					channels[gpu][peer].Wait(append(opts, TB(0))...)
				}
			}
		}
	}
	handshake(Relaxed())
	for gpu := range ranks {
		in := p.Rank(gpu).Input()
		nvls.AtRank(gpu).Reduce(gpu, 1, in.Chunk(gpu), TB(0))
		nvls.AtRank(gpu).Broadcast(in.Chunk(gpu), gpu, 1, TB(0))
	}
	handshake()
	return p
}

func compile(t *testing.T, p *CollectiveProgram) *plan.Plan {
	t.Helper()
	out, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Validate(&plan.Capacity); err != nil {
		t.Fatal(err)
	}
	return out
}

func proven(t *testing.T, p *CollectiveProgram) *plan.Plan {
	t.Helper()
	out := compile(t, p)
	if _, err := verify.Check(out, verify.Options{}); err != nil {
		t.Fatal(err)
	}
	return out
}

// opNames returns a block's ops in one line.
func opNames(ops []plan.Op) string {
	var out []string
	for i := range ops {
		name := string(ops[i].Name)
		if ops[i].Name == plan.Pipeline {
			name = "pipeline(" + opNames(ops[i].Ops) + ")"
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func TestSwitchAllReduceOfTheTorchGuide(t *testing.T) {
	out := proven(t, switchAllReduce(8, 8))
	if n := len(out.GPUs[3].ThreadBlocks); n != 8 {
		t.Errorf("%d thread blocks, want one per instance", n)
	}
	want := "rlxsignal rlxwait nop glres nop signal wait"
	if got := opNames(out.GPUs[3].ThreadBlocks[7].Ops); got != want {
		t.Errorf("ops %s, want %s", got, want)
	}
}

func TestCompileTwiceGivesTheSameBytes(t *testing.T) {
	p := switchAllReduce(4, 3)
	first := compile(t, p).Encode()
	if second := compile(t, p).Encode(); !bytes.Equal(first, second) {
		t.Error("the second compilation differs")
	}
	if other := compile(t, switchAllReduce(4, 3)).Encode(); !bytes.Equal(first, other) {
		t.Error("an equal program compiles to something else")
	}
}

func TestProgramsDoNotShareBarrierIDs(t *testing.T) {
	build := func() *plan.Plan {
		p := NewCollectiveProgram(AlgoSpec{Name: "b", Collective: AllGather(2, 2, false)})
		for r := range 2 {
			rank := p.Rank(r)
			rank.Copy(rank.Output().Chunk(0), rank.Input().Chunk(0), TB(0))
			rank.Copy(rank.Output().Chunk(1), rank.Input().Chunk(1), TB(1))
			rank.Barrier(0, 1)
			rank.Barrier(1, 0)
		}
		return compile(t, p)
	}
	for range 20 {
		for _, op := range build().GPUs[1].ThreadBlocks[0].Ops {
			if op.Name == plan.Barrier && op.BarrierID != 0 {
				t.Fatalf("barrier id %d in a program with one set of blocks", op.BarrierID)
			}
		}
	}
}

func line() int {
	_, _, n, _ := runtime.Caller(1)
	return n
}

func TestErrorsPointAtTheLine(t *testing.T) {
	base := func() *CollectiveProgram {
		return NewCollectiveProgram(AlgoSpec{Name: "e", Collective: AllReduce(2, 1, false)})
	}
	for _, c := range []struct {
		name  string
		kind  error
		write func(p *CollectiveProgram) int
	}{
		{"slice out of range", ErrRange, func(p *CollectiveProgram) int { p.Rank(0).Input().Slice(1, 3); return line() }},
		{"rank", ErrRange, func(p *CollectiveProgram) int { p.Rank(2); return line() }},
		{"channel to itself", ErrRange, func(p *CollectiveProgram) int { p.MemoryChannel(1, 1); return line() }},
		{"packets outside scratch", ErrUsage, func(p *CollectiveProgram) int {
			c := p.MemoryChannel(1, 0)
			c.PutPackets(p.Rank(1).Output().Chunk(0), p.Rank(0).Input().Chunk(0))
			return line() - 1
		}},
		{"sizes", ErrMismatch, func(p *CollectiveProgram) int {
			p.Rank(0).Copy(p.Rank(0).Output().All(), p.Rank(0).Input().Chunk(0))
			return line() - 1
		}},
		{"wrong rank", ErrMismatch, func(p *CollectiveProgram) int {
			p.Rank(0).Copy(p.Rank(1).Output().Chunk(0), p.Rank(0).Input().Chunk(0))
			return line() - 1
		}},
		{"signal without wait", ErrPairing, func(p *CollectiveProgram) int {
			p.MemoryChannel(1, 0).Signal(TB(0))
			return line() - 1
		}},
		{"put by a group over a port", ErrUsage, func(p *CollectiveProgram) int {
			c := p.PortChannel(1, 0)
			c.Put(p.Rank(1).Output().Chunk(0), p.Rank(0).Input().Chunk(0), Group([]int{0, 1}))
			return line() - 1
		}},
		{"open loop", ErrUsage, func(p *CollectiveProgram) int { p.BeginLoop(1024, 1); return line() }},
		{"semaphore without block", ErrUsage, func(p *CollectiveProgram) int { p.Semaphore(0, 0).Release(); return line() }},
		{"relaxed port", ErrUsage, func(p *CollectiveProgram) int {
			p.PortChannel(1, 0).Signal(TB(0), Relaxed())
			return line() - 1
		}},
		{"no member", ErrRange, func(p *CollectiveProgram) int {
			p.SwitchChannel([]int{0, 1}, Input).AtRank(5)
			return line() - 1
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := base()
			want := c.write(p)
			_, err := p.Compile()
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, c.kind) {
				t.Fatalf("error %v, want one of %v", err, c.kind)
			}
			if filepath.Base(e.Position.File) != "program_test.go" || e.Position.Line != want {
				t.Errorf("at %v, want line %d of this file: %v", e.Position, want, err)
			}
		})
	}
}

// TestUnpaired compiles signals that nobody waits for, when that is allowed; the verifier refuses the plan.
func TestUnpaired(t *testing.T) {
	p := NewCollectiveProgram(AlgoSpec{Name: "u", Collective: AllReduce(2, 1, true), AllowUnpaired: true})
	p.MemoryChannel(1, 0).Signal(TB(0))
	p.MemoryChannel(0, 1)
	var v *verify.Violation
	if _, err := verify.Check(compile(t, p), verify.Options{}); !errors.As(err, &v) || v.Kind != verify.Unbalanced {
		t.Errorf("the verifier says %v, want %s", err, verify.Unbalanced)
	}
}

func TestPositionsCanBeOverridden(t *testing.T) {
	p := NewCollectiveProgram(AlgoSpec{Name: "e", Collective: AllReduce(2, 1, false)})
	p.At("model.py", 42)
	p.MemoryChannel(1, 0).Signal(TB(0))
	p.At("", 0)
	_, err := p.Compile()
	var e *Error
	if !errors.As(err, &e) || e.Position != (Position{"model.py", 42}) {
		t.Errorf("error %v, want it at model.py:42", err)
	}
}

func TestSpecIsChecked(t *testing.T) {
	for name, change := range map[string]func(*AlgoSpec){
		"no name":    func(s *AlgoSpec) { s.Name = "" },
		"protocol":   func(s *AlgoSpec) { s.Protocol = "LL256" },
		"policy":     func(s *AlgoSpec) { s.ReplicationPolicy = "some" },
		"threads":    func(s *AlgoSpec) { s.ThreadsPerBlock = 100 },
		"alignment":  func(s *AlgoSpec) { s.BufferAlignment = 12 },
		"range":      func(s *AlgoSpec) { s.MinMessageSize, s.MaxMessageSize = 2, 1 },
		"world size": func(s *AlgoSpec) { s.WorldSize = 3 },
		"hosts":      func(s *AlgoSpec) { s.RanksPerNode = 3 },
		"instances":  func(s *AlgoSpec) { s.Instances = -1 },
	} {
		s := AlgoSpec{Name: "s", Collective: AllReduce(4, 1, false)}
		change(&s)
		if _, err := NewCollectiveProgram(s).Compile(); !errors.Is(err, ErrSpec) {
			t.Errorf("%s: error %v, want %v", name, err, ErrSpec)
		}
	}
}

func TestGolden(t *testing.T) {
	for name, p := range map[string]*CollectiveProgram{
		"allreduce_nvls": switchAllReduce(2, 2),
		"allgather_put":  allGatherPut(2, Auto),
		"allreduce_ll":   twoShotPackets(2, 2, Interleaved),
		"exchange_port":  portExchange(),
		"pipeline":       pipelined(),
	} {
		t.Run(name, func(t *testing.T) {
			got := proven(t, p).Encode()
			file := filepath.Join("testdata", name+".json")
			if os.Getenv("GOCCL_UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the plan differs from %s; run with GOCCL_UPDATE_GOLDEN=1 and look at the change\n%s", file, got)
			}
		})
	}
}
