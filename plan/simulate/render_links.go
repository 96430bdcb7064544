package simulate

import (
	"bytes"
	"fmt"
	"html"
	"math"

	"github.com/goccl/goccl/internal/printable"
)

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
