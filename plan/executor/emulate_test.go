package executor

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/test/testutil"
)

type emulation struct {
	plan     *plan.Plan
	message  uint64
	t        datatype.Type
	op       datatype.Op
	threads  int
	launches int
	first    uint32     // epoch before the first launch
	general  bool       // run the general kernel even where the quick one applies
	bits     bool       // inputs are any bits, for integers: the largest unsigned numbers are negative as signed ones
	hosts    []int      // by rank; nil: one
	counts   [][]uint64 // of a plan with counts, by launch: the table
}

// job writes what the emulator reads, and returns the inputs.
func (c *emulation) job(path string) ([][]byte, *plan.Layout, error) {
	p := c.plan
	l, err := p.NewLayout(c.message)
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	put := func(v ...any) {
		for _, x := range v {
			_ = binary.Write(&b, binary.LittleEndian, x)
		}
	}
	put(uint32(len(p.GPUs)), uint32(c.threads), uint32(c.launches), uint32(c.t), c.first)
	for r := range p.GPUs {
		h := 0
		if c.hosts != nil {
			h = c.hosts[r]
		}
		put(uint32(h))
	}
	put(uint32(len(c.counts)))
	for _, table := range c.counts {
		put(table)
	}
	var inputs [][]byte
	for r := range p.GPUs {
		prog, err := compile(p, r, c.hosts)
		if err != nil {
			return nil, nil, err
		}
		g, err := encode(prog, l.Period)
		if err != nil {
			return nil, nil, err
		}
		linear := uint32(0)
		if l.Even() {
			linear = 1
		}
		quick := uint32(0)
		if g.quick && len(prog.distant) == 0 && linear != 0 && c.op == datatype.Sum &&
			(l.Chunk|int64(p.Alignment))%8 == 0 && !c.general {
			quick = 1
		}
		publish := uint32(0)
		if prog.touched != [2]bool{} {
			publish = 1
		}
		s := p.Scratch(r, l.Chunk)
		put(uint32(g.blocks), uint32(g.stride), uint32(prog.maxLinks), uint32(prog.barriers),
			uint32(len(p.GPUs[r].Semaphores)), uint32(prog.links), uint32(len(prog.distant)))
		for _, peer := range prog.distant {
			put(uint32(peer))
		}
		put(uint32(c.op), linear, uint32(l.Period), uint32(bits.TrailingZeros64(uint64(p.Alignment))), publish, quick)
		put(uint64(l.Block), uint64(l.Chunk), uint64(max(s.Size, 64)))
		put(uint64(s.Plain[0]), uint64(s.Plain[1]), uint64(s.Packets[0]), uint64(s.Packets[1]),
			uint64(int64(p.GPUs[r].ScratchChunks)*l.Chunk))
		in, out := l.Size(r, plan.Input), l.Size(r, plan.Output)
		inAt, outAt := int64(0), (in+255)&^255
		total := outAt + out
		if p.InPlace {
			total = max(in, out)
			inAt, outAt = l.Together(r)
		}
		put(uint64(total), uint64(in), uint64(inAt), uint64(out), uint64(outAt))
		for _, sem := range p.GPUs[r].Semaphores {
			put(uint32(sem.InitValue))
		}
		b.Write(g.bytes)
		putHooks(put, p, l, prog)
		input := make([]byte, in)
		if c.bits {
			rng := rand.New(rand.NewPCG(5, uint64(r)))
			for i := range input {
				input[i] = byte(rng.Uint32())
			}
		} else {
			hostreduce.Fill(input, c.t, 5, r)
		}
		b.Write(input)
		inputs = append(inputs, input)
	}
	return inputs, l, os.WriteFile(path, b.Bytes(), 0o600)
}

func (c *emulation) run(t *testing.T, program string) error {
	t.Helper()
	dir := t.TempDir()
	inputs, l, err := c.job(filepath.Join(dir, "job"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, filepath.Join(dir, "job"), filepath.Join(dir, "result"))
	cmd.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1 exitcode=66",
		"GLIBC_TUNABLES=glibc.pthread.stack_cache_size=2000000000") // stacks of threads are reused
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out[:min(len(out), 4000)])
	}
	result, err := os.ReadFile(filepath.Join(dir, "result"))
	if err != nil {
		return err
	}
	if c.counts != nil {
		return c.counted(result, inputs, l)
	}
	for r := range c.plan.GPUs {
		n := l.Size(r, plan.Output)
		got := result[:n]
		result = result[n:]
		for k, want := range c.plan.Demands(r) {
			terms := want.Of
			at := l.Offset(k)
			_, size := l.Locate(k, 0)
			if len(terms) == 0 || size == 0 || c.plan.Collective == plan.Reduce && r != c.plan.Root {
				continue
			}
			var srcs [][]byte
			for _, term := range terms {
				from := l.Offset(term.Index)
				srcs = append(srcs, inputs[term.Rank][from:from+size])
			}
			want := make([]byte, size)
			if err := hostreduce.Reduce(want, srcs, c.t, c.op, [8]byte{}, len(srcs)); err != nil {
				return err
			}
			if wrong, first := hostreduce.Check(got[at:at+size], want, c.t, c.op, len(srcs)); wrong != 0 {
				return fmt.Errorf("rank %d, chunk %d: %d wrong elements, the first is %d", r, k, wrong, first)
			}
		}
	}
	return nil
}

// emulated runs every shipped program through the kernel's source.
func emulated(t *testing.T, program string, ranks []int, messages []uint64, only func(name string) bool) {
	for _, n := range ranks {
		for _, prog := range programs.All() {
			for _, inPlace := range []bool{false, true} {
				o := programs.Options{Ranks: n, InPlace: inPlace}
				if prog.Supports(o) != nil || !only(prog.Name) {
					continue
				}
				p, err := prog.Build(o)
				if err != nil {
					t.Fatal(err)
				}
				for i, m := range messages {
					c := emulation{plan: p, message: m * uint64(n), t: datatype.Float32, threads: 3, launches: 3}
					if i == 0 {
						c.first = 0xfffffffe
					}
					if _, err := p.NewLayout(c.message); err != nil {
						continue
					}
					if err := c.run(t, program); err != nil {
						t.Errorf("%s, %d ranks, in place %v, %d bytes: %v", prog.Name, n, inPlace, c.message, err)
					}
				}
			}
		}
	}
}

// TestKernel runs the kernel's source on the CPU. One build serves both parts.
func TestKernel(t *testing.T) {
	if testing.Short() {
		t.Skip("another process runs the kernel: Go's race detector sees nothing of it")
	}
	program := testutil.Emulator(t, "executor")
	t.Run("programs", func(t *testing.T) {
		emulated(t, program, []int{2}, []uint64{4, 1024}, func(string) bool { return true })
		emulated(t, program, []int{3}, []uint64{100}, func(string) bool { return true })
	})
	t.Run("large copies", func(t *testing.T) { kernelCopies(t, program) })
	t.Run("general", func(t *testing.T) { kernelGeneral(t, program) })
	t.Run("files", func(t *testing.T) { kernelFiles(t, program) })
	t.Run("arithmetic", func(t *testing.T) { kernelArithmetic(t, program) })
	t.Run("long sums", func(t *testing.T) { kernelLongSums(t, program) })
	t.Run("hosts", func(t *testing.T) { kernelHosts(t, program, kernelShapes, []uint64{12, 100, 3000}) })
	t.Run("hooks", func(t *testing.T) { kernelHooks(t, program) })
	t.Run("counts", func(t *testing.T) { kernelCounts(t, program, []uint64{1, 37, 512, 3001}) })
	t.Run("mutants", func(t *testing.T) { kernelMutants(t, program) })
}

// TestKernelUnderThreadSanitizer: the synchronization of the kernel, of the programs and of couriers is correct in the
// C++ memory model. One message divides unevenly, in multiples of 16 bytes, because copies between differently aligned
// addresses read, and discard, neighbouring bytes. The other divides evenly, for the quick kernel.
func TestKernelUnderThreadSanitizer(t *testing.T) {
	if testing.Short() {
		t.Skip("another process runs the kernel: Go's race detector sees nothing of it")
	}
	names := map[string]bool{"allreduce_direct": true, "allreduce_twoshot_ll": true, "allreduce_tree": true,
		"broadcast_ll": true, "allreduce_switch": true}
	program := testutil.Emulator(t, "executor", "-g1", "-fsanitize=thread", "-DEMULATE_FLOAT32")
	emulated(t, program, []int{2}, []uint64{1008, 1024},
		func(name string) bool { return names[name] })
	// A result with an end that is no vector goes to more ranks than a kernel op has destinations.
	emulated(t, program, []int{gpuOperands + 2}, []uint64{100},
		func(name string) bool { return name == "allreduce_switch" })
	kernelHooks(t, program)
	kernelCounts(t, program, []uint64{336})
	shapes := kernelShapes
	if setting.Lenient().Full == "" {
		shapes = shapes[:2]
	}
	kernelHosts(t, program, shapes, []uint64{336})
}

// kernelCopies tests plans that use bulk copies, whole and with a tail, aligned and not.
func kernelCopies(t *testing.T, program string) {
	for _, message := range []uint64{4 * 2 * gpuBulkBytes, 2*(4*2*gpuBulkBytes) + 40} {
		p, err := programs.Build("allgather_direct", programs.Options{Ranks: 2, Instances: 2, Alignment: 4})
		if err != nil {
			t.Fatal(err)
		}
		c := emulation{plan: p, message: message, t: datatype.Float32, threads: 3, launches: 3}
		if err := c.run(t, program); err != nil {
			t.Errorf("%d bytes: %v", message, err)
		}
	}
}

// kernelGeneral runs the general kernel where the quick one applies, and both with many units per thread.
func kernelGeneral(t *testing.T, program string) {
	for _, name := range []string{"allreduce_oneshot_ll", "allreduce_twoshot_ll", "allgather_ll", "reducescatter_ll",
		"alltoall_ll"} {
		for _, general := range []bool{false, true} {
			p, err := programs.Build(name, programs.Options{Ranks: 3, Instances: 1})
			if err != nil {
				t.Fatal(err)
			}
			prog, err := compile(p, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			if g, err := encode(prog, 1); err != nil || !g.quick {
				t.Errorf("%s is not for the quick kernel: %v", name, err)
			}
			c := emulation{plan: p, message: 3 * 3 * 1040, t: datatype.Float32, threads: 3, launches: 2, general: general,
				first: 0xfffffffe}
			if err := c.run(t, program); err != nil {
				t.Errorf("%s, general %v: %v", name, general, err)
			}
		}
	}
}

func kernelArithmetic(t *testing.T, program string) {
	for _, name := range []string{"allreduce_direct", "allreduce_twoshot_ll"} {
		p, err := programs.Build(name, programs.Options{Ranks: 2})
		if err != nil {
			t.Fatal(err)
		}
		for ty := range datatype.NumTypes {
			for op := range datatype.Avg {
				c := emulation{plan: p, message: uint64(101 * ty.Size()), t: ty, op: op, threads: 2, launches: 1,
					bits: ty <= datatype.Uint64}
				if err := c.run(t, program); err != nil {
					t.Errorf("%s, %v, %v: %v", name, ty, op, err)
				}
			}
		}
	}
}
