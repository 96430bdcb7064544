package main

import (
	"fmt"
	"math"
	"strings"
)

// frame is the place of a picture's two panels, whose axes are logarithmic: ratios over sizes.
type frame struct {
	left, top, wide, high, gap float64
	least, most                float64 // ratios
	from, to                   int64   // sizes
	sizes                      []int64 // that are named
}

// panel is one of them.
type panel struct {
	*frame
	x0 float64
}

func (f *frame) panel(i int) panel { return panel{f, f.left + float64(i)*(f.wide+f.gap)} }

func (p panel) x(size int64) float64 {
	return p.x0 + p.wide*math.Log(float64(size)/float64(p.from))/math.Log(float64(p.to)/float64(p.from))
}

func (p panel) y(r float64) float64 {
	return p.top + p.high*(1-math.Log(r/p.least)/math.Log(p.most/p.least))
}

// draw writes the grid, its labels and a title.
func (p panel) draw(b *strings.Builder, title string) {
	for _, r := range []float64{0.5, 1, 2, 4} {
		colour, stroke := "#dddddd", 1.0
		if r == 1 {
			colour, stroke = "#333333", 1.5
		}
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1[2]f" stroke="%[4]s" stroke-width="%g"/>`+"\n", p.x0,
			p.y(r), p.x0+p.wide, colour, stroke)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end" fill="#333333">%g×</text>`+"\n", p.x0-8, p.y(r)+4, r)
	}
	for _, size := range p.sizes {
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1[1]f" y2="%.1[3]f" stroke="#eeeeee"/>`+"\n", p.x(size), p.top,
			p.top+p.high)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#333333">%s</text>`+"\n", p.x(size),
			p.top+p.high+18, bytesText(size))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#333333">%s</text>`+"\n", p.x0+p.wide/2, p.top-10,
		title)
}
