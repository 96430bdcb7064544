package simulate

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/goccl/goccl/plan"
)

// RenderOptions bound a picture.
type RenderOptions struct {
	Width    int // pixels; 0: 1400
	MaxRows  int // thread blocks shown; 0: 256
	MaxSpans int // ops drawn; 0: 20,000
	HTML     bool
}

// Render draws a run as SVG, or as an HTML page around it: a row for each thread block of each rank, time to the right, a bar for each op, an
// arrow for each signal (orange) and each piece of data (violet) that let another block go on. Ops of the critical path have a dark edge.
// Bars carry their op, position and times as tooltips. The picture is a function of its arguments alone.
func Render(r *Result, o RenderOptions) []byte {
	if o.Width == 0 {
		o.Width = 1400
	}
	if o.MaxRows == 0 {
		o.MaxRows = 256
	}
	if o.MaxSpans == 0 {
		o.MaxSpans = 20000
	}
	p := painter{r: r, o: o}
	p.paint()
	if !o.HTML {
		return p.out.Bytes()
	}
	var page bytes.Buffer
	fmt.Fprintf(&page, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>%s</title></head><body>\n", html.EscapeString(r.Plan.Name))
	page.Write(p.out.Bytes())
	fmt.Fprintf(&page, "<pre>%s\n%s</pre>\n</body></html>\n", html.EscapeString(r.Summary()), html.EscapeString(r.Critical()))
	return page.Bytes()
}

const (
	rowHeight   = 14
	barHeight   = 10
	leftMargin  = 130
	topMargin   = 64
	rightMargin = 20
)

type painter struct {
	r     *Result
	o     RenderOptions
	out   bytes.Buffer
	scale float64 // pixels per µs
	rows  int     // thread blocks shown: the first of the plan
}

// opColour groups ops by what they cost.
func opColour(n plan.OpName) string {
	switch n {
	case plan.Nop, plan.Barrier:
		return "#9e9e9e"
	case plan.Signal, plan.RlxSignal, plan.SemRelease:
		return "#fb8c00"
	case plan.Wait, plan.RlxWait, plan.SemAcquire, plan.Flush:
		return "#ffe0b2"
	case plan.Copy, plan.Put, plan.PutWithSignal, plan.PutWithSignalAndFlush:
		return "#1e88e5"
	case plan.Get:
		return "#00acc1"
	case plan.ReduceLocal, plan.ReduceSend, plan.ReadReduce, plan.ReadReduceSend:
		return "#43a047"
	case plan.SwitchReduce, plan.SwitchReduceStore, plan.SwitchStore, plan.SwitchStorePackets:
		return "#d81b60"
	}
	return "#8e24aa" // packets
}

func (p *painter) x(t float64) float64 { return leftMargin + t*p.scale }
func (p *painter) y(block int32) int   { return topMargin + int(block)*rowHeight }

func (p *painter) paint() {
	r := p.r
	p.rows = min(len(r.blocks), p.o.MaxRows)
	p.scale = float64(p.o.Width-leftMargin-rightMargin) / max(r.Micros, 1e-9)
	height := topMargin + p.rows*rowHeight + 40
	fmt.Fprintf(&p.out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="10">`+"\n", p.o.Width, height)
	fmt.Fprintf(&p.out, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	p.defs()
	title := fmt.Sprintf("%s, %d ranks, %d bytes: %.2f us, busbw %.1f GB/s on %s", r.Plan.Name, len(r.Plan.GPUs), r.Size, r.Micros, r.BusBW, r.Machine.Name)
	fmt.Fprintf(&p.out, `<text x="%d" y="20" font-size="14">%s</text>`+"\n", 10, html.EscapeString(title))
	p.axis(height)
	p.labels()
	p.bars()
	p.arrows()
	if p.rows < len(r.blocks) {
		fmt.Fprintf(&p.out, `<text x="10" y="%d">first %d of %d thread blocks</text>`+"\n", height-8, p.rows, len(r.blocks))
	}
	p.out.WriteString("</svg>\n")
}

func (p *painter) defs() {
	p.out.WriteString("<defs>")
	for _, a := range [2][2]string{{"signal", "#fb8c00"}, {"data", "#8e24aa"}} {
		fmt.Fprintf(&p.out, `<marker id="%s" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0,0 L6,3 L0,6 z" fill="%s"/></marker>`, a[0], a[1])
	}
	p.out.WriteString("</defs>\n")
}

// axis draws a line at every 1, 2 or 5 times a power of ten microseconds, at most 14 of them.
func (p *painter) axis(height int) {
	step := math.Pow(10, math.Floor(math.Log10(max(p.r.Micros, 1e-3)/14)))
	for _, f := range []float64{1, 2, 5, 10} {
		if p.r.Micros/(step*f) <= 14 {
			step *= f
			break
		}
	}
	for i := 0; float64(i)*step <= p.r.Micros; i++ {
		t := float64(i) * step
		fmt.Fprintf(&p.out, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#eeeeee"/><text x="%.1f" y="%d" text-anchor="middle">%.4g us</text>`+"\n",
			p.x(t), topMargin-8, p.x(t), height-30, p.x(t), topMargin-14, t)
	}
}

func (p *painter) labels() {
	last := int32(-1)
	for i := range p.rows {
		b := &p.r.blocks[i]
		label := fmt.Sprintf("block %d", b.id)
		if b.rank != last {
			last = b.rank
			label = fmt.Sprintf("rank %d  block %d", b.rank, b.id)
			fmt.Fprintf(&p.out, `<line x1="0" y1="%d" x2="%d" y2="%d" stroke="#bdbdbd"/>`+"\n", p.y(int32(i))-2, p.o.Width, p.y(int32(i))-2)
		}
		fmt.Fprintf(&p.out, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", leftMargin-8, p.y(int32(i))+barHeight-1, label)
	}
}

func (p *painter) shown(i int) bool {
	return i < p.o.MaxSpans && int(p.r.spans[i].block) < p.rows
}

func (p *painter) bars() {
	critical := map[int32]bool{}
	for i := p.r.last; i != none; {
		critical[i] = true
		if c := p.r.spans[i].cause; c != none {
			i = c
		} else {
			i = p.r.spans[i].prev
		}
	}
	for i := range p.r.spans {
		if !p.shown(i) {
			continue
		}
		s := p.r.Span(i)
		edge := ""
		if critical[int32(i)] {
			edge = ` stroke="#000000" stroke-width="1.2"`
		}
		where := fmt.Sprintf("rank %d block %d op %d", s.Rank, s.Block, s.Pos.Op)
		if s.Pos.Inner >= 0 {
			where += fmt.Sprintf(".%d iteration %d", s.Pos.Inner, s.Iteration)
		}
		fmt.Fprintf(&p.out, `<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"%s><title>%s: %s, %.3f to %.3f us</title></rect>`+"\n",
			p.x(s.Start), p.y(p.r.spans[i].block), max((s.End-s.Start)*p.scale, 0.5), barHeight, opColour(s.Op), edge, where, s.Op, s.Start, s.End)
	}
}

func (p *painter) arrows() {
	for i := range p.r.spans {
		s := &p.r.spans[i]
		if s.cause == none || !p.shown(i) || !p.shown(int(s.cause)) {
			continue
		}
		c := &p.r.spans[s.cause]
		kind, colour := "data", "#8e24aa"
		if strings.HasSuffix(string(c.in.name), "signal") || c.in.name == plan.SemRelease || c.in.name == plan.Barrier {
			kind, colour = "signal", "#fb8c00"
		}
		fmt.Fprintf(&p.out, `<line x1="%.2f" y1="%d" x2="%.2f" y2="%d" stroke="%s" stroke-width="0.7" stroke-opacity="0.6" marker-end="url(#%s)"/>`+"\n",
			p.x(min(c.end, s.end)), p.y(c.block)+barHeight/2, p.x(s.end), p.y(s.block)+barHeight/2, colour, kind)
	}
}

// Timeline is the run as text: one line per op in the order of their beginning, at most n; n 0 means all.
func (r *Result) Timeline(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9s %9s  %s\n", "start us", "end us", "what")
	for i := range r.spans {
		if n > 0 && i == n {
			fmt.Fprintf(&b, "… %d more\n", len(r.spans)-n)
			break
		}
		s := r.Span(i)
		fmt.Fprintf(&b, "%9.3f %9.3f  rank %d block %d  %s", s.Start, s.End, s.Rank, s.Block, s.Op)
		if s.Cause >= 0 {
			c := r.Span(s.Cause)
			fmt.Fprintf(&b, "  after %s of rank %d block %d", c.Op, c.Rank, c.Block)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
