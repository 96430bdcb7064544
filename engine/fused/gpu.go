package fused

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/engine/nvlink"
	"github.com/goccl/goccl/job/share"
	"github.com/goccl/goccl/kernels"
)

// gpu is the half of a Workspace on a GPU.
type gpu struct {
	dev    *cuda.Device
	engine Engine                         // nil: the communicator has another engine, and nothing runs in its order
	rows   [numWhats][3][3]*cuda.Function // by type and by groups a thread: 1, 2, 4
	blocks int64                          // of kernels that wait for peers
	slot   int64                          // the size of a slot: whole rows of cfg.RowBytes
	arena  *share.Arena                   // nil: ranks do not reach each other's memory
	passes device.Allocation
	args   *kernelArgs // of the next launch; the constant fields are filled once
}

// what names a family of kernels.
type what uint8

const (
	oneShot what = iota
	twoShot
	finishing
	numWhats
)

var (
	whatNames = [numWhats]string{"one_shot", "two_shot", "finish"}
	typeNames = [3]string{"float16", "bfloat16", "float32"}
)

func typeIndex(t datatype.Type) int {
	switch t {
	case datatype.Float16:
		return 0
	case datatype.Bfloat16:
		return 1
	}
	return 2
}

// newGPU loads the kernels and, where ranks reach each other's memory, makes the arenas.
func newGPU(ctx context.Context, dev *cuda.Device, comm *Comm, cfg Config) (g *gpu, err error) {
	engine, boot := comm.Engine, comm.Bootstrap
	g = &gpu{dev: dev, engine: engine, args: new(kernelArgs), blocks: mostBlocks}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if err = g.load(); err != nil || engine == nil || !engine.Reaches() {
		return g, err
	}
	n := boot.WorldSize()
	g.blocks, g.slot = arena(n, engine.ForeignBlocks(), cfg.RowBytes)
	if g.passes, err = dev.Alloc(g.blocks * passBytes); err != nil {
		return g, err
	}
	size := g.blocks * blockBytes(n, g.slot)
	if g.arena, err = share.NewArena(ctx, boot, dev, size); err != nil {
		return g, err
	}
	a := g.args
	for r := range n {
		a.window[r] = uint64(g.arena.Ptr[r])
	}
	a.abort, a.passes = uint64(engine.AbortBlock()), uint64(g.passes.Ptr())
	a.slotBytes, a.rank, a.nranks = uint32(g.slot), uint32(boot.Rank()), uint32(n)
	return g, nil
}

func (g *gpu) load() (err error) {
	module, err := launcher.Load(g.dev, "fused")
	if err != nil {
		return err
	}
	find := func(name string) (f *cuda.Function) {
		if err == nil {
			f, err = nvlink.ForeignFunction(module, kernels.Entry("fused_"+name))
		}
		return f
	}
	for t, name := range typeNames {
		for w := range numWhats {
			for k := range 3 {
				g.rows[w][t][k] = find(fmt.Sprintf("%s_%s_g%d", whatNames[w], name, 1<<k))
			}
		}
	}
	return err
}

// takes reports whether the kernels can run an algorithm of r.
func (g *gpu) takes(r *Request, cfg Config) bool {
	return g.arena != nil && r.RowBytes() <= cfg.RowBytes
}

// launchRows launches a kernel for rows [first, end).
func (g *gpu) launchRows(seq uint64, r *Request, w what, first, end int64) error {
	threads := threadsOf(r.Hidden)
	groups := (int(r.Hidden)/groupElements + threads - 1) / threads
	k := bits.Len(uint(groups - 1)) // 1, 2, 4
	g.args.first, g.args.end = uint32(first), uint32(end)
	return g.launch(seq, r.Stream, g.rows[w][typeIndex(r.Type)][k], int(min(g.blocks, end-first)), threads)
}

func (g *gpu) launch(seq uint64, stream device.Stream, f *cuda.Function, blocks, threads int) error {
	s := stream.(*cuda.Stream)
	if g.engine != nil {
		return g.engine.LaunchForeign(seq, collective.AllReduceFusion, s, f, blocks, threads, launcher.Raw(g.args))
	}
	g.args.ticket = 0
	cfg := cuda.Launch1D(blocks, threads, 0)
	return s.LaunchRaw(f, &cfg, launcher.Raw(g.args))
}

// fill sets the parameters of a request.
func (g *gpu) fill(r *Request) {
	a := g.args
	a.input, a.sum, a.residual, a.residualOut = uint64(r.Input), uint64(r.Sum), uint64(r.Residual), uint64(r.ResidualOut)
	a.weight, a.norm, a.epsilon = uint64(r.Weight), uint64(r.Norm), r.Epsilon
	a.quant, a.scale, a.scaleOut = uint64(r.Quant), uint64(r.Scale), uint64(r.ScaleOut)
	a.quantisation, a.quantType = uint32(r.Quantisation), uint32(r.QuantType)
	a.tokens, a.hidden, a.stage = uint32(r.Tokens), uint32(r.Hidden), uint32(whole)
	a.divided = 0
}

// packets runs a one-shot or two-shot request, split into launches whose rows fit the slots.
func (g *gpu) packets(seq uint64, r *Request, w what, ranks int) error {
	g.fill(r)
	rows := r.Tokens
	if w == twoShot {
		rows = (r.Tokens + int64(ranks) - 1) / int64(ranks)
		g.args.slice = uint32(rows)
		if r.divides() {
			g.args.divided = 1
		}
	}
	most := g.blocks * (g.slot / r.RowBytes())
	for first := int64(0); first < rows; first += most {
		if err := g.launchRows(seq, r, w, first, min(rows, first+most)); err != nil {
			return err
		}
	}
	return nil
}

// finish launches a stage of rows [from, to) whose sums are at sums.
func (g *gpu) finish(seq uint64, r *Request, do stage, sums device.Ptr, from, to int64) error {
	g.fill(r)
	a := g.args
	a.input, a.stage = uint64(sums), uint32(do)
	if sums == r.Sum {
		a.sum = 0
	}
	return g.launchRows(seq, r, finishing, from, to)
}

func (g *gpu) close() error {
	return errors.Join(device.CloseAll(g.arena), device.CloseAll(g.passes))
}
