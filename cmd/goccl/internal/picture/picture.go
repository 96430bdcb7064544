// Package picture draws the results of goccl perf.
package picture

import (
	"bytes"
	"cmp"
	"errors"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/goccl/goccl/cmd/goccl/internal/perf"
	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/internal/regular"
)

// colours of the curves. They are distinguishable in grey and with colour blindness.
var colours = []color.Color{color.RGBA{0, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x5e, 0, 0xff},
	color.RGBA{0, 0x9e, 0x73, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	color.RGBA{0xe6, 0x9f, 0, 0xff}}

// curve identifies a curve of the pictures.
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
func series(r perf.Row, rows []perf.Row) string {
	name := r.Library
	if slices.ContainsFunc(rows, func(o perf.Row) bool { return o.Type != r.Type }) {
		name += ", " + r.Type
	}
	if slices.ContainsFunc(rows, func(o perf.Row) bool { return o.Op != r.Op }) {
		name += ", " + r.Op
	}
	return name
}

// Draw writes an SVG with two pictures over the message size: bus bandwidth, and time. Each library has a curve, solid
// out of place and dashed in place. Points of size 0, and refused ones, are left out.
func Draw(path, title string, rows []perf.Row, stdout io.Writer) error {
	var order []curve
	busbw, times := map[curve]plotter.XYs{}, map[curve]plotter.XYs{}
	for _, r := range rows {
		if r.Size <= 0 || r.Time <= 0 || r.Refused != "" {
			continue
		}
		c := curve{series(r, rows), r.InPlace}
		if !slices.Contains(order, c) {
			order = append(order, c)
		}
		busbw[c] = append(busbw[c], plotter.XY{X: float64(r.Size), Y: r.BusBW})
		times[c] = append(times[c], plotter.XY{X: float64(r.Size), Y: r.Time})
	}
	if len(order) == 0 {
		return errors.New("perf: nothing to plot: no row has a size, a time and a place in the picture")
	}
	above, errAbove := picture("bus bandwidth (GB/s)", order, busbw)
	below, errBelow := picture("time (µs)", order, times)
	if err := errors.Join(errAbove, errBelow); err != nil {
		return err
	}
	above.Title.Text, above.Y.Min, above.Y.Max = title, 0, cmp.Or(above.Y.Max, 1)
	below.Y.Scale, below.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: 5}
	below.Y.Min = math.Pow(10, math.Floor(math.Log10(below.Y.Min)))
	below.Y.Max = max(10*below.Y.Min, math.Pow(10, math.Ceil(math.Log10(below.Y.Max))))
	canvas := vgsvg.New(760, 840)
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadTop: 10, PadBottom: 10, PadLeft: 10, PadRight: 30, PadY: 20}
	pictures := [][]*plot.Plot{{above}, {below}}
	for i, row := range plot.Align(pictures, tiles, draw.New(canvas)) {
		pictures[i][0].Draw(row[0])
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	return regular.Save(path, b.Bytes(), stdout)
}

// picture returns the picture of one quantity.
func picture(label string, order []curve, data map[curve]plotter.XYs) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "size", label
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(sizes)
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.Padding = true, true, 10, 3
	p.Add(plotter.NewGrid())
	var colored []string
	for _, c := range order {
		line, points, err := plotter.NewLinePoints(data[c])
		if err != nil {
			return nil, err
		}
		if !slices.Contains(colored, c.series) {
			colored = append(colored, c.series)
		}
		line.Color, line.Width = colours[slices.Index(colored, c.series)%len(colours)], 2
		points.Color, points.Shape = line.Color, draw.CircleGlyph{}
		if c.inPlace {
			line.Dashes = []vg.Length{6, 4}
		}
		p.Add(line, points)
		p.Legend.Add(c.name(), line)
	}
	if p.X.Min == p.X.Max { // a logarithmic axis has no middle of nothing
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	return p, nil
}

// sizes marks powers of two, about ten at most.
func sizes(low, high float64) (ticks []plot.Tick) {
	first, last := int(math.Ceil(math.Log2(low)-1e-9)), int(math.Floor(math.Log2(high)+1e-9))
	for e := first; e <= last; e += max(1, (last-first+9)/10) {
		ticks = append(ticks, plot.Tick{Value: math.Ldexp(1, e), Label: printable.Bytes(int64(math.Ldexp(1, e)))})
	}
	return ticks
}
