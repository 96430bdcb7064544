package perf

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// palette colours, one per curve; told apart also in grey and by the colour-blind.
var colours = []color.Color{
	color.RGBA{0x00, 0x72, 0xB2, 0xff}, color.RGBA{0xD5, 0x5E, 0x00, 0xff}, color.RGBA{0x00, 0x9E, 0x73, 0xff}, color.RGBA{0xCC, 0x79, 0xA7, 0xff},
	color.RGBA{0x56, 0xB4, 0xE9, 0xff}, color.RGBA{0xE6, 0x9F, 0x00, 0xff},
}

// Plot writes an SVG with two pictures over the message size: bus bandwidth, and time. Each library has a curve, solid out of place and
// dashed in place. Points of size 0, and refused ones, are left out.
func Plot(path, title string, rows []Row) error {
	type curve struct {
		library string
		inPlace bool
	}
	var order []curve
	busbw, times := map[curve]plotter.XYs{}, map[curve]plotter.XYs{}
	for _, r := range rows {
		if r.Size <= 0 || r.Time <= 0 || r.Refused != "" {
			continue
		}
		c := curve{r.Library, r.InPlace}
		if _, ok := times[c]; !ok {
			order = append(order, c)
		}
		busbw[c] = append(busbw[c], plotter.XY{X: float64(r.Size), Y: r.BusBW})
		times[c] = append(times[c], plotter.XY{X: float64(r.Size), Y: r.Time})
	}
	if len(order) == 0 {
		return errors.New("perf: nothing to plot: no row has a size, a time and a place in the picture")
	}
	picture := func(label string, data map[curve]plotter.XYs) (*plot.Plot, error) {
		p := plot.New()
		p.X.Label.Text, p.Y.Label.Text = "size", label
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, byteTicks{}
		p.Add(plotter.NewGrid())
		p.Legend.Top, p.Legend.Left = true, true
		libraries := map[string]int{}
		for _, c := range order {
			if _, ok := libraries[c.library]; !ok {
				libraries[c.library] = len(libraries)
			}
			line, points, err := plotter.NewLinePoints(data[c])
			if err != nil {
				return nil, err
			}
			line.Color = colours[libraries[c.library]%len(colours)]
			line.Width = vg.Points(1.5)
			points.Color, points.Radius, points.Shape = line.Color, vg.Points(2), draw.CircleGlyph{}
			name := c.library
			if c.inPlace {
				line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
				name += ", in place"
			}
			p.Add(line, points)
			p.Legend.Add(name, line)
		}
		return p, nil
	}
	top, err := picture("bus bandwidth (GB/s)", busbw)
	if err != nil {
		return fmt.Errorf("perf: plot: %w", err)
	}
	top.Title.Text = title
	bottom, err := picture("time (µs)", times)
	if err != nil {
		return fmt.Errorf("perf: plot: %w", err)
	}
	bottom.Y.Scale, bottom.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}

	canvas := vgsvg.New(20*vg.Centimeter, 22*vg.Centimeter)
	dc := draw.New(canvas)
	tiles := draw.Tiles{Rows: 2, Cols: 1, PadY: vg.Points(14), PadTop: vg.Points(6), PadBottom: vg.Points(6), PadLeft: vg.Points(6), PadRight: vg.Points(14)}
	for i, row := range plot.Align([][]*plot.Plot{{top}, {bottom}}, tiles, dc) {
		[]*plot.Plot{top, bottom}[i].Draw(row[0])
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return fmt.Errorf("perf: plot: %w", err)
	}
	return writeFile(path, b.Bytes())
}

// byteTicks marks powers of two, at most about ten with a label.
type byteTicks struct{}

// Ticks implements plot.Ticker.
func (byteTicks) Ticks(lo, hi float64) []plot.Tick {
	first, last := int(math.Ceil(math.Log2(lo)-1e-9)), int(math.Floor(math.Log2(hi)+1e-9))
	step := max(1, (last-first+9)/10)
	var ticks []plot.Tick
	for e := first; e <= last; e++ {
		t := plot.Tick{Value: math.Ldexp(1, e)}
		if (e-first)%step == 0 {
			t.Label = bytesText(1 << e)
		}
		ticks = append(ticks, t)
	}
	return ticks
}
