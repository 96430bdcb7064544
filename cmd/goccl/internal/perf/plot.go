package perf

import (
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/internal/regular"
)

// colours of the curves. They are distinguishable in grey and with colour blindness.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"}

// The layout of the pictures, in pixels: both have the same width, one below the other.
const (
	plotWidth, plotHeight = 760, 840
	plotLeft, plotWide    = 76.0, 650.0
	plotTop, plotHigh     = 56.0, 310.0
	plotNext              = 400.0 // distance between the tops of the two pictures
)

// point is one measurement in a picture; curve identifies its curve.
type point struct{ x, y float64 }

type curve struct {
	series  string // the library, and where there are several the type and the operator
	inPlace bool
}

func (c curve) name() string {
	if c.inPlace {
		return c.series + ", in place"
	}
	return c.series
}

// series returns the name of the row's curve among rows.
func (r *Row) series(rows []Row) string {
	name := r.Library
	if slices.ContainsFunc(rows, func(o Row) bool { return o.Type != r.Type }) {
		name += ", " + r.Type
	}
	if slices.ContainsFunc(rows, func(o Row) bool { return o.Op != r.Op }) {
		name += ", " + r.Op
	}
	return name
}

// Plot writes an SVG with two pictures over the message size: bus bandwidth, and time. Each library has a curve, solid
// out of place and dashed in place. Points of size 0, and refused ones, are left out.
func Plot(path, title string, rows []Row, stdout io.Writer) error {
	var order []curve
	busbw, times := map[curve][]point{}, map[curve][]point{}
	for _, r := range rows {
		if r.Size <= 0 || r.Time <= 0 || r.Refused != "" {
			continue
		}
		c := curve{r.series(rows), r.InPlace}
		if _, ok := times[c]; !ok {
			order = append(order, c)
		}
		busbw[c] = append(busbw[c], point{float64(r.Size), r.BusBW})
		times[c] = append(times[c], point{float64(r.Size), r.Time})
	}
	if len(order) == 0 {
		return errors.New("perf: nothing to plot: no row has a size, a time and a place in the picture")
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d"
  font-family="Helvetica, Arial, sans-serif" font-size="13">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<text x="%d" y="22" text-anchor="middle" font-size="15">%s</text>`+"\n", plotWidth/2,
		html.EscapeString(title))
	sizes := sizeAxis(order, times)
	drawPicture(&b, plotTop, "bus bandwidth (GB/s)", order, busbw, sizes, linearAxis(order, busbw))
	drawPicture(&b, plotTop+plotNext, "time (µs)", order, times, sizes, logAxis(order, times))
	b.WriteString("</svg>\n")
	return regular.Save(path, []byte(b.String()), stdout)
}

// drawPicture draws axes, curves and the legend; y is the top edge.
func drawPicture(b *strings.Builder, y float64, label string, order []curve, data map[curve][]point, across, up axis) {
	line := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
	}
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	at := func(p point) (float64, float64) {
		return plotLeft + plotWide*across.at(p.x), y + plotHigh*(1-up.at(p.y))
	}
	for _, t := range across.ticks {
		x, _ := at(point{t, up.low})
		line(x, y, x, y+plotHigh, `stroke="#eeeeee"`)
		text(x, y+plotHigh+18, "middle", across.label(t))
	}
	for _, t := range up.ticks {
		_, h := at(point{across.low, t})
		line(plotLeft, h, plotLeft+plotWide, h, `stroke="#dddddd"`)
		text(plotLeft-8, h+4, "end", up.label(t))
	}
	fmt.Fprintf(b, `<text x="18" y="%.1f" text-anchor="middle" transform="rotate(-90 18 %[1]f)">%s</text>`+"\n",
		y+plotHigh/2, html.EscapeString(label))
	text(plotLeft+plotWide/2, y+plotHigh+38, "middle", "size")
	var series []string
	for i, c := range order {
		if !slices.Contains(series, c.series) {
			series = append(series, c.series)
		}
		style := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="2"`,
			colours[slices.Index(series, c.series)%len(colours)])
		if c.inPlace {
			style += ` stroke-dasharray="6 4"`
		}
		var points []string
		for _, p := range data[c] {
			px, py := at(p)
			points = append(points, fmt.Sprintf("%.1f,%.1f", px, py))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`+"\n", px, py,
				colours[slices.Index(series, c.series)%len(colours)])
		}
		fmt.Fprintf(b, `<polyline points="%s" %s/>`+"\n", strings.Join(points, " "), style)
		h := y + 16 + float64(i)*18
		line(plotLeft+12, h-4, plotLeft+40, h-4, style)
		text(plotLeft+48, h, "start", c.name())
	}
}

// axis maps values to 0…1, by their logarithm if log.
type axis struct {
	low, high float64
	log       bool
	ticks     []float64
	label     func(float64) string
}

func (a axis) at(v float64) float64 {
	if a.log {
		v, a.low, a.high = math.Log(v), math.Log(a.low), math.Log(a.high)
	}
	if a.high == a.low {
		return 0.5
	}
	return (v - a.low) / (a.high - a.low)
}

// spread returns the minimum and the maximum of f over all points.
func spread(order []curve, data map[curve][]point, f func(point) float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, c := range order {
		for _, p := range data[c] {
			low, high = min(low, f(p)), max(high, f(p))
		}
	}
	return low, high
}

// sizeAxis marks powers of two, about ten at most.
func sizeAxis(order []curve, data map[curve][]point) axis {
	low, high := spread(order, data, func(p point) float64 { return p.x })
	a := axis{low: low, high: high, log: true, label: func(v float64) string { return printable.Bytes(int64(v)) }}
	first, last := int(math.Ceil(math.Log2(low)-1e-9)), int(math.Floor(math.Log2(high)+1e-9))
	for e := first; e <= last; e += max(1, (last-first+9)/10) {
		a.ticks = append(a.ticks, math.Ldexp(1, e))
	}
	return a
}

// linearAxis begins at 0 and ends at a mark.
func linearAxis(order []curve, data map[curve][]point) axis {
	_, high := spread(order, data, func(p point) float64 { return p.y })
	step := 1.0
	if high > 0 {
		step = math.Pow(10, math.Floor(math.Log10(high)))
		for _, f := range []float64{0.1, 0.2, 0.5} {
			if high/(step*f) <= 8 {
				step *= f
				break
			}
		}
	}
	a := axis{label: func(v float64) string { return fmt.Sprintf("%.4g", v) }}
	for i := 0.0; a.high < high || i < 2; i++ {
		a.high = i * step
		a.ticks = append(a.ticks, a.high)
	}
	return a
}

// logAxis spans whole powers of ten.
func logAxis(order []curve, data map[curve][]point) axis {
	low, high := spread(order, data, func(p point) float64 { return p.y })
	a := axis{log: true, label: func(v float64) string { return fmt.Sprintf("%.4g", v) }}
	first := math.Floor(math.Log10(low))
	last := max(first+1, math.Ceil(math.Log10(high)))
	a.low, a.high = math.Pow(10, first), math.Pow(10, last)
	for e := first; e <= last; e++ {
		a.ticks = append(a.ticks, math.Pow(10, e))
	}
	return a
}
