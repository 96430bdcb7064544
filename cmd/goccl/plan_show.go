package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/plan"
)

type planShow struct {
	planSource
	Rank    int    `default:"0" help:"The rank whose program is printed (default ${default}); -1: all ranks."`
	JSON    bool   `name:"json" help:"As goccl writes it."`
	SVG     string `name:"svg" placeholder:"FILE" help:"Draw a simulated run: ranks and thread blocks over time. A name that ends in .html gets a page."`
	Size    int64  `type:"size" short:"b" default:"1M" placeholder:"SIZE" help:"Message size of the drawing (default 1M)."`
	Machine string `default:"h200" help:"Machine or topology of the drawing (default h200)."`
}

func (c *planShow) Run(s *streams) error {
	done := s.busy("reading the plan")
	defer done()
	p, err := c.load()
	if err != nil {
		return err
	}
	if c.Rank >= len(p.GPUs) {
		return &exitError{2, fmt.Errorf("rank %d of %d", c.Rank, len(p.GPUs))}
	}
	if c.SVG != "" {
		m, err := c.machine(c.Machine)
		if err != nil {
			return err
		}
		r, err := (&anyPlan{whole: p}).simulate(m, c.Size)
		if err != nil {
			return err
		}
		foreign(s, p, m)
		return draw(r, c.SVG)
	}
	done()
	if c.JSON {
		_, err := s.out.Write(p.Encode())
		return err
	}
	var b bytes.Buffer
	writeHead(&b, p)
	for r := range p.GPUs {
		if c.Rank < 0 || c.Rank == r {
			writeRank(&b, p, r)
		}
	}
	_, err = s.out.Write(b.Bytes())
	return err
}

func writeHead(b *bytes.Buffer, p *plan.Plan) {
	place := "out of place"
	if p.InPlace {
		place = "in place"
	}
	fmt.Fprintf(b, "%s: %s over %s, %s, %s, units of %d bytes\n", p.Name, p.Collective,
		printable.Count(len(p.GPUs), "rank"), p.Protocol, place, p.Alignment)
	if p.MaxSize == ^uint64(0) {
		fmt.Fprintf(b, "messages from %d bytes on\n", p.MinSize)
	} else {
		fmt.Fprintf(b, "messages from %d to %d bytes\n", p.MinSize, p.MaxSize)
	}
	if p.DoubleScratch {
		b.WriteString("scratch in two halves, by turns\n")
	}
}

func writeRank(b *bytes.Buffer, p *plan.Plan, r int) {
	g := &p.GPUs[r]
	fmt.Fprintf(b, "\nrank %d: %d input, %d output, %d scratch chunks; %d thread blocks of %d threads\n", r, g.InputChunks,
		g.OutputChunks, g.ScratchChunks,
		len(g.ThreadBlocks), p.ThreadsPerBlock)
	for k := range g.ThreadBlocks {
		fmt.Fprintf(b, "  thread block %d\n", k)
		writeSteps(b, g, p.Program(r, k), "    ")
	}
}

func writeSteps(b *bytes.Buffer, g *plan.GPU, steps []plan.Step, indent string) {
	for i := range steps {
		st := &steps[i]
		op := st.Op
		if i > 0 && steps[i-1].Op == op {
			continue // another of its effects
		}
		n := st.Pos.Op
		if st.Pos.Inner >= 0 {
			n = st.Pos.Inner
		}
		fmt.Fprintf(b, "%s%3d %-11s", indent, n, op.Name)
		switch {
		case st.Does.Has(plan.Loops):
			fmt.Fprintf(b, " %d chunks, %d bytes at a time", op.NumChunks, op.UnitSize)
		case st.Does.Has(plan.Joins):
			fmt.Fprintf(b, " %d among %d thread blocks", op.BarrierID, op.NumThreadBlocks)
		case len(op.SemaphoreIDs) > 0:
			fmt.Fprintf(b, " %v", op.SemaphoreIDs)
		case len(st.Moves) == 0 && len(st.Channels) > 0:
			fmt.Fprintf(b, " %s", peers(g, op.ChannelType, st.Channels))
		}
		for k := range st.Moves {
			if k > 0 {
				b.WriteString(";")
			}
			fmt.Fprintf(b, " %s <- %s", places(st.Moves[k].Dst, ", "), places(st.Moves[k].Src, " + "))
		}
		if op.ReduceOp != plan.CallerOp {
			fmt.Fprintf(b, "  (%s)", op.ReduceOp)
		}
		if op.Slice.Count > 1 {
			fmt.Fprintf(b, "  part %d of %d", op.Slice.Index+1, op.Slice.Count)
		}
		b.WriteString("\n")
		writeSteps(b, g, st.Body, indent+"    ")
	}
}

// peers formats peers, for example "rank 1, rank 2 (port)".
func peers(g *plan.GPU, t plan.ChannelType, ids []int) string {
	all := g.Peers(t)
	parts := make([]string, len(ids))
	for i, id := range ids {
		parts[i] = fmt.Sprintf("rank %d", all[id])
	}
	s := strings.Join(parts, ", ")
	if t == plan.PortChannel {
		s += " (port)"
	}
	return s
}

// places formats places, for example "3.input[0:2]".
func places(list []plan.Place, sep string) string {
	names := [...]string{"input", "output", "scratch", "packets"}
	parts := make([]string, len(list))
	for i, pl := range list {
		parts[i] = fmt.Sprintf("%d.%s[%d:%d]", pl.Rank, names[pl.Plane], pl.Index, pl.Index+pl.Size)
	}
	return strings.Join(parts, sep)
}
