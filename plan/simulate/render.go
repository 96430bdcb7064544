package simulate

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"

	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/plan"
)

// RenderOptions bounds a picture.
type RenderOptions struct {
	Width    int // pixels; 0: 1400
	MaxRows  int // thread blocks shown; 0: 256
	MaxSpans int // ops drawn; 0: 20,000
	HTML     bool
}

// Render draws a run as SVG, or as an HTML page around it: a band for each rank with a row for each thread block, time
// to the right, a bar for each op, pale while it waits, and a curve for each signal or data that unblocked another
// block. The critical path is dark. Tooltips of bars show op, position and times. The picture depends on the arguments
// alone.
func Render(r *Result, o RenderOptions) []byte {
	o.Width = cmp.Or(o.Width, 1400)
	o.MaxRows = cmp.Or(o.MaxRows, 256)
	o.MaxSpans = cmp.Or(o.MaxSpans, 20000)
	p := painter{r: r, o: o}
	p.paint()
	if !o.HTML {
		return p.out.Bytes()
	}
	return page(r, p.out.Bytes())
}

// page returns an HTML page around a picture, with the summary and the critical path below.
func page(r *Result, svg []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n<style>\n",
		html.EscapeString(r.Plan.Name))
	b.WriteString("body{margin:24px;background:#f4f5f8;color:#1f2430;font-family:system-ui,sans-serif}" +
		"svg{border-radius:10px;box-shadow:0 1px 6px #0002;max-width:100%;height:auto}\n" +
		"rect.op:hover{filter:brightness(1.15)}path.go:hover{stroke-width:3;stroke-opacity:1}" +
		"table{border-collapse:collapse;margin:18px 0}td,th{padding:3px 14px 3px 0;text-align:left}\n" +
		"td.n{text-align:right;font-variant-numeric:tabular-nums}pre{line-height:1.45}\n</style></head><body>\n")
	b.Write(svg)
	b.WriteString("<h3>Ports</h3>\n<table><tr><th>rank</th><th>port</th><th>busy, us</th><th>share</th></tr>\n")
	for _, u := range r.Busiest(16) {
		fmt.Fprintf(&b, "<tr><td>%d</td><td>%s</td><td class=\"n\">%.2f</td><td class=\"n\">%.0f %%</td></tr>\n", u.Rank,
			u.Port, u.Micros, 100*u.Share)
	}
	fmt.Fprintf(&b, "</table>\n<h3>Critical path</h3>\n<pre>%s</pre>\n</body></html>\n", html.EscapeString(r.Critical()))
	return b.Bytes()
}

const (
	rowHeight   = 20
	barHeight   = 14
	bandGap     = 10 // between ranks
	leftMargin  = 150
	topMargin   = 108
	rightMargin = 24
)

// opClass groups ops by effect. Each class has a colour and an entry in the legend.
type opClass struct{ name, colour string }

var (
	moveData      = &opClass{"move data", "#2f7ed8"}
	reduce        = &opClass{"reduce", "#2a9d6f"}
	sendPackets   = &opClass{"send packets", "#8f63d2"}
	reducePackets = &opClass{"reduce packets", "#00989a"}
	unpackPackets = &opClass{"unpack packets", "#c2569b"}
	switched      = &opClass{"switch", "#d1495b"}
	signal        = &opClass{"signal", "#ee8a2d"}
	wait          = &opClass{"wait", "#e0b64a"}
	meet          = &opClass{"meet", "#8b93a3"}

	opClasses = []*opClass{moveData, reduce, sendPackets, reducePackets, unpackPackets, switched, signal, wait, meet}
)

func classOf(n plan.OpName) *opClass {
	k := n.Kind()
	packets := func(s plan.Operands) bool { return slices.ContainsFunc(s.Kinds(), plan.OperandKind.Packets) }
	switch {
	case k.On(plan.SwitchChannel):
		return switched
	case k.Reduces && packets(k.Src):
		return reducePackets
	case k.Reduces:
		return reduce
	case packets(k.Dst):
		return sendPackets
	case packets(k.Src):
		return unpackPackets
	case k.Does.Has(plan.Moves):
		return moveData
	case k.Does.Has(plan.Adds):
		return signal
	case k.Synchronizes():
		return wait
	}
	return meet
}

const ink, pale = "#1f2430", "#6b7280"

type painter struct {
	r        *Result
	o        RenderOptions
	out      bytes.Buffer
	scale    float64 // pixels per µs
	rows     int     // thread blocks shown: the first rows of the plan
	top      []int   // by row: where its bars start
	bottom   int
	critical map[int32]bool
}

func (p *painter) x(t float64) float64 { return leftMargin + t*p.scale }

func (p *painter) printf(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

// paint draws, in this order: frame, title, legend, bands, time axis, bars, curves.
func (p *painter) paint() {
	r := p.r
	p.rows = min(len(r.blocks), p.o.MaxRows)
	p.scale = float64(p.o.Width-leftMargin-rightMargin) / max(r.Micros, 1e-9)
	y := topMargin
	for i := range p.rows {
		if i > 0 && r.blocks[i].rank != r.blocks[i-1].rank {
			y += bandGap
		}
		p.top = append(p.top, y)
		y += rowHeight
	}
	p.bottom = y
	p.critical = map[int32]bool{}
	for i := range r.critical {
		p.critical[i] = true
	}
	height := p.bottom + 34
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="system-ui, 'Helvetica Neue', Arial, sans-serif" font-size="11" fill="%s">`,
		p.o.Width, height, p.o.Width, height, ink)
	p.printf(`<defs><marker id="tip" viewBox="0 0 6 6" refX="5.5" refY="3" markerWidth="6" markerHeight="6" ` +
		`markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0.6 L6,3 L0,5.4 z" fill="context-stroke"/></marker></defs>`)
	p.printf(`<rect class="frame" width="100%%" height="100%%" fill="#ffffff"/>`)
	p.title()
	p.legend()
	p.bands()
	p.axis()
	p.bars()
	p.curves()
	if p.rows < len(r.blocks) {
		p.printf(`<text x="24" y="%d" fill="%s">the first %d of %d thread blocks</text>`, height-10, pale, p.rows,
			len(r.blocks))
	}
	p.printf("</svg>")
}

func (p *painter) title() {
	r := p.r
	p.printf(`<text x="24" y="30" font-size="18" font-weight="600">%s</text>`, html.EscapeString(r.Plan.Name))
	p.printf(`<text x="24" y="50" fill="%s">%s over %d ranks, %s on %s</text>`, pale,
		html.EscapeString(string(r.Plan.Collective)), len(r.Plan.GPUs), printable.Bytes(r.Size),
		html.EscapeString(r.Machine.Name))
	p.printf(`<text x="%d" y="30" font-size="18" font-weight="600" text-anchor="end">%.2f us</text>`,
		p.o.Width-rightMargin, r.Micros)
	p.printf(`<text x="%d" y="50" fill="%s" text-anchor="end">busbw %.1f GB/s</text>`, p.o.Width-rightMargin, pale,
		r.BusBW)
}

// legend shows the classes that the run contains.
func (p *painter) legend() {
	used := map[*opClass]bool{}
	for i := range p.r.spans {
		used[classOf(p.r.spans[i].in.name)] = true
	}
	x := 24
	for _, c := range opClasses {
		if !used[c] {
			continue
		}
		p.printf(`<circle cx="%d" cy="72" r="5" fill="%s"/><text x="%d" y="76">%s</text>`, x+5, c.colour, x+15, c.name)
		x += 15 + 7*len(c.name) + 18
	}
	p.printf(`<text x="%d" y="76" fill="%s">pale: waiting, dark edge: critical path</text>`, x, pale)
}

// bands draws a band behind each rank, with its name, its blocks and the utilization of its ports.
func (p *painter) bands() {
	use := map[[2]int]float64{}
	for _, u := range p.r.Ports {
		use[[2]int{u.Rank, int(u.Port)}] = u.Share
	}
	for i := 0; i < p.rows; {
		rank := p.r.blocks[i].rank
		j := i
		for j < p.rows && p.r.blocks[j].rank == rank {
			p.printf(`<text x="%d" y="%d" fill="%s" text-anchor="end">%d</text>`, leftMargin-10, p.top[j]+barHeight-3, pale,
				p.r.blocks[j].id)
			j++
		}
		top, bottom := p.top[i]-4, p.top[j-1]+rowHeight-2
		p.printf(`<path d="M%d,%d H%d V%d H%d z" fill="%s" fill-opacity="0.07"/>`, 12, top, p.o.Width-rightMargin+12, bottom,
			12, ink)
		p.printf(`<text x="24" y="%d" font-weight="600">rank %d</text>`, p.top[i]+barHeight-3, rank)
		out, in := use[[2]int{int(rank), int(NVLinkOut)}], use[[2]int{int(rank), int(NVLinkIn)}]
		if j-i > 1 && out+in > 0 {
			p.printf(`<text x="24" y="%d" font-size="9" fill="%s">nvlink out %.0f %%, in %.0f %%</text>`, p.top[i+1]+barHeight-4,
				pale, 100*out, 100*in)
		}
		i = j
	}
}

// axis draws a line at every 1, 2 or 5 times a power of ten microseconds, at most 14 of them.
func (p *painter) axis() {
	step := math.Pow(10, math.Floor(math.Log10(max(p.r.Micros, 1e-3)/14)))
	for _, f := range []float64{1, 2, 5, 10} {
		if p.r.Micros/(step*f) <= 14 {
			step *= f
			break
		}
	}
	for i := 0; float64(i)*step <= p.r.Micros; i++ {
		t := float64(i) * step
		p.printf(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s" stroke-opacity="0.12"/><text x="%.1f" y="%d" `+
			`text-anchor="middle" fill="%s">%.4g us</text>`,
			p.x(t), topMargin-6, p.x(t), p.bottom+4, ink, p.x(t), p.bottom+18, pale, t)
	}
}

func (p *painter) shown(i int) bool {
	return i < p.o.MaxSpans && int(p.r.spans[i].block) < p.rows
}

// bars draws each op: pale while it waits, solid from then on.
func (p *painter) bars() {
	for i := range p.r.spans {
		if !p.shown(i) {
			continue
		}
		s := p.r.Span(i)
		y := p.top[p.r.spans[i].block]
		colour := classOf(s.Op).colour
		edge := ""
		if p.critical[int32(i)] {
			edge = fmt.Sprintf(` stroke="%s" stroke-width="1.5"`, ink)
		}
		where := fmt.Sprintf("rank %d, thread block %d, op %d", s.Rank, s.Block, s.Pos.Op)
		if s.Pos.Inner >= 0 {
			where += fmt.Sprintf(".%d, iteration %d", s.Pos.Inner, s.Iteration)
		}
		width := max((s.End-s.Start)*p.scale, 0.8)
		p.printf(`<rect class="op" x="%.2f" y="%d" width="%.2f" height="%d" rx="2.5" fill="%s" fill-opacity="0.28"%s>`+
			`<title>%s: %s, %.3f to %.3f us</title></rect>`,
			p.x(s.Start), y, width, barHeight, colour, edge, where, s.Op, s.Start, s.End)
		work := (s.End - s.Woke) * p.scale
		if work > 0 {
			p.printf(`<path d="M%.2f,%d h%.2f v%d h-%.2f z" fill="%s" pointer-events="none"/>`, p.x(s.Woke), y, max(work, 0.8),
				barHeight, max(work, 0.8), colour)
		}
		if text := 6.4*float64(len(s.Op)) + 6; width > text {
			at, fill := p.x(s.Start), ink
			if work > text {
				at, fill = p.x(s.Woke), "#ffffff"
			}
			if work > text || width-work > text {
				p.printf(`<text x="%.1f" y="%d" font-size="10" fill="%s" pointer-events="none">%s</text>`, at+4, y+barHeight-4,
					fill, s.Op)
			}
		}
	}
}

// curves draws a line from each cause of a wakeup to the block that it wakes. Lines on the critical path are dark and
// are drawn last.
func (p *painter) curves() {
	for _, dark := range []bool{false, true} {
		for i := range p.r.spans {
			s := &p.r.spans[i]
			if s.cause == none || !p.shown(i) || !p.shown(int(s.cause)) ||
				dark != (p.critical[int32(i)] && p.critical[s.cause]) {
				continue
			}
			c := &p.r.spans[s.cause]
			look := fmt.Sprintf(`stroke="%s" stroke-width="1" stroke-opacity="0.45"`, classOf(c.in.name).colour)
			if dark {
				look = fmt.Sprintf(`stroke="%s" stroke-width="1.8"`, ink)
			}
			x2 := p.x(min(s.woke, s.end))
			x1 := min(p.x(c.end), x2)
			y1, y2 := p.top[c.block]+barHeight/2, p.top[s.block]+barHeight/2
			bend := max(18, (x2-x1)/2)
			p.printf(`<path class="go" d="M%.2f,%d C%.2f,%d %.2f,%d %.2f,%d" fill="none" %s marker-end="url(#tip)"/>`, x1, y1,
				x1+bend, y1, x2-bend, y2, x2, y2, look)
		}
	}
}

// linkSlots is the number of time slots of a picture of links.
const linkSlots = 240

// RenderLinks draws a run on a fabric as SVG: a row for each direction of a link that was used, time to the right, dark
// where the link is busy, with its share of the run at the end. The picture depends on the run alone.
func RenderLinks(r *Result) []byte {
	var out bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	const left, top, width, row = 230, 84, 960, 16
	g := r.Machine.Fabric
	height := top + row*len(r.Links) + 40
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`font-family="system-ui, 'Helvetica Neue', Arial, sans-serif" font-size="11" fill="%s">`, left+width+90, height,
		left+width+90, height, ink)
	p(`<rect width="100%%" height="100%%" fill="#ffffff"/>`)
	p(`<text x="24" y="30" font-size="18" font-weight="600">%s</text>`, html.EscapeString(r.Plan.Name))
	if g == nil {
		p("</svg>")
		return out.Bytes()
	}
	p(`<text x="24" y="50" fill="%s">%s over %d ranks, %s on %s: %.2f us, busbw %.1f GB/s</text>`, pale,
		html.EscapeString(string(r.Plan.Collective)), len(r.Plan.GPUs), printable.Bytes(r.Size), html.EscapeString(g.Name),
		r.Micros, r.BusBW)
	p(`<text x="24" y="%d" fill="%s">one direction of a link, GB/s</text><text x="%d" y="%d" fill="%s">busy</text>`,
		top-12,
		pale, left+width+14, top-12, pale)
	slot := r.Micros / linkSlots
	for i, u := range r.Links {
		e := &g.Edges[u.Edge]
		y := top + row*i
		p(`<text x="24" y="%d">%s → %s</text><text x="%d" y="%d" fill="%s" text-anchor="end">%.4g</text>`, y+row-5,
			html.EscapeString(g.Nodes[e.From].Name), html.EscapeString(g.Nodes[e.To].Name), left-12, y+row-5, pale, e.GBps)
		p(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s" fill-opacity="0.06"/>`, left, y+1, width, row-2, ink)
		levels := u.shades(slot)
		for from := 0; from < linkSlots; {
			level := levels[from]
			to := from + 1
			for to < linkSlots && levels[to] == level {
				to++
			}
			if level > 0 {
				p(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#2f7ed8" fill-opacity="%.2f"/>`,
					left+float64(width*from)/linkSlots, y+1, float64(width*(to-from))/linkSlots, row-2, float64(level)/shades)
			}
			from = to
		}
		p(`<text x="%d" y="%d">%.0f %%</text>`, left+width+14, y+row-5, 100*u.Share)
	}
	p(`<text x="%d" y="%d" fill="%s">0</text><text x="%d" y="%d" fill="%s" text-anchor="end">%.4g us</text>`, left,
		height-20, pale, left+width, height-20, pale, r.Micros)
	p("</svg>")
	return out.Bytes()
}

const shades = 5

// shades returns how busy an edge is in each slot of a duration, in fifths.
func (u *LinkUse) shades(slot float64) (out [linkSlots]int) {
	var busy [linkSlots]float64
	for _, b := range u.Busy {
		for i := int(b[0] / slot); i < linkSlots && float64(i)*slot < b[1]; i++ {
			busy[i] += min(b[1], float64(i+1)*slot) - max(b[0], float64(i)*slot)
		}
	}
	for i := range out {
		out[i] = int(math.Round(shades * min(1, busy[i]/slot)))
	}
	return out
}
