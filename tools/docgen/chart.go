package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// chart is a picture of two panels of curves, whose axes are logarithmic: ratios over sizes.
type chart struct {
	title, of string
	from, to  int64   // sizes
	marks     []int64 // sizes that are named
	panels    [2]string
	curves    []curve
}

// curve is a line in each panel. Colours and dashes are distinguishable with colour blindness.
type curve struct {
	name, colour, dash string
	points             [2][]point
}

type point struct {
	size  int64
	ratio float64
}

// The layout of a chart in pixels, and its ratios.
const (
	chartWidth                                            = 900
	chartLeft, chartTop, chartWide, chartHigh, chartGap   = 56.0, 72.0, 330.0, 270.0, 90.0
	leastRatio, mostRatio                                 = 0.5, 5.0
	legendColumns, legendColumn, legendRow, legendDescent = 4, 200.0, 22.0, 52.0
)

// draw returns the picture. A ratio outside its range is an error.
func (c *chart) draw() ([]byte, error) {
	rows := (len(c.curves) + legendColumns - 1) / legendColumns
	var b strings.Builder
	fmt.Fprintf(&b, svgHead, chartWidth, 402+rows*int(legendRow))
	for i, title := range c.panels {
		left := chartLeft + float64(i)*(chartWide+chartGap)
		c.grid(&b, left, title)
		for _, k := range c.curves {
			var points []string
			for _, p := range k.points[i] {
				if p.ratio < leastRatio || p.ratio > mostRatio || p.size < c.from || p.size > c.to {
					return nil, fmt.Errorf("%s: %s of %d bytes, %.2f, is outside the picture", title, k.name, p.size, p.ratio)
				}
				points = append(points, fmt.Sprintf("%.1f,%.1f", left+c.x(p.size), chartY(p.ratio)))
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
				strings.Join(points, " "), k.colour, k.dash)
		}
	}
	for i, k := range c.curves {
		x := chartLeft + float64(i%legendColumns)*legendColumn
		y := chartTop + chartHigh + legendDescent + float64(i/legendColumns)*legendRow
		fmt.Fprintf(&b,
			`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1[2]f" stroke="%[4]s" stroke-width="3" stroke-dasharray="%s"/>`+"\n", x,
			y-4, x+26, k.colour, k.dash)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="#333333">%s</text>`+"\n", x+34, y, k.name)
	}
	fmt.Fprintf(&b, `<text x="%d" y="20" text-anchor="middle" font-size="15" fill="#000000">%s</text>`+"\n", chartWidth/2,
		html.EscapeString(c.title))
	fmt.Fprintf(&b, `<text x="%d" y="39" text-anchor="middle" fill="#333333">%s</text>`+"\n</svg>\n", chartWidth/2,
		html.EscapeString(c.of))
	return []byte(b.String()), nil
}

// x is the place of a size in a panel.
func (c *chart) x(size int64) float64 {
	return chartWide * math.Log(float64(size)/float64(c.from)) / math.Log(float64(c.to)/float64(c.from))
}

func chartY(r float64) float64 {
	return chartTop + chartHigh*(1-math.Log(r/leastRatio)/math.Log(mostRatio/leastRatio))
}

// grid writes the lines behind the curves, their labels and the title of the panel at left.
func (c *chart) grid(b *strings.Builder, left float64, title string) {
	for _, r := range []float64{0.5, 1, 2, 4} {
		colour, stroke := "#dddddd", 1.0
		if r == 1 {
			colour, stroke = "#333333", 1.5
		}
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1[2]f" stroke="%[4]s" stroke-width="%g"/>`+"\n", left,
			chartY(r), left+chartWide, colour, stroke)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="end" fill="#333333">%g×</text>`+"\n", left-8, chartY(r)+4, r)
	}
	for _, size := range c.marks {
		x := left + c.x(size)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1[1]f" y2="%.1[3]f" stroke="#eeeeee"/>`+"\n", x, chartTop,
			chartTop+chartHigh)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#333333">%s</text>`+"\n", x,
			chartTop+chartHigh+18, bytesText(size))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#333333">%s</text>`+"\n", left+chartWide/2,
		chartTop-10, title)
}
