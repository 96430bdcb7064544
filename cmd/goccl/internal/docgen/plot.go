package main

import (
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// shown lists the directories for the picture of ratios, the newest first; each file is read from the first directory
// that has it. The picture names all commits.
var shown = []string{"bench/results/2026-11-21-4xH200-7f77dc9"}

// newest returns the path of a file of shown.
func newest(root, name string) string {
	var path string
	for _, folder := range shown {
		path = filepath.Join(root, folder, name)
		if _, err := os.Stat(path); err == nil {
			break
		}
	}
	return path
}

// curves lists the collectives of the picture, in colours that are distinguishable with colour blindness.
var curves = []struct{ collective, colour, dash string }{
	{"all_reduce", "#0072b2", ""}, {"all_gather", "#d55e00", ""}, {"reduce_scatter", "#009e73", ""},
	{"all_to_all", "#cc79a7", ""},
	{"all_to_all_v", "#cc79a7", "5 3"}, {"broadcast", "#e69f00", ""}, {"reduce", "#56b4e9", ""},
	{"send_recv", "#555555", "5 3"},
}

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d"
  font-family="Helvetica, Arial, sans-serif" font-size="13">
<rect width="%[1]d" height="%[2]d" fill="#ffffff"/>
`

// ratios draws the other library's time divided by goccl's over the message size, eager and in graphs.
func ratios(root string) ([]byte, error) {
	const (
		width, height         = 900, 446
		left, top, wide, high = 56.0, 72.0, 330.0, 270.0
		gap                   = 90.0
		least, most           = 0.5, 5.0 // of the axis, which is logarithmic
		from, to              = 1 << 10, 1 << 30
	)
	y := func(r float64) float64 {
		return top + high*(1-math.Log(r/least)/math.Log(most/least))
	}
	var b strings.Builder
	fmt.Fprintf(&b, svgHead, width, height)
	var first *times
	var commits []string
	for i, mode := range []string{"eager", "graph"} {
		x0 := left + float64(i)*(wide+gap)
		x := func(size int64) float64 {
			return x0 + wide*math.Log(float64(size)/from)/math.Log(to/from)
		}
		for _, r := range []float64{0.5, 1, 2, 4} {
			colour, stroke := "#dddddd", 1.0
			if r == 1 {
				colour, stroke = "#333333", 1.5
			}
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1[2]f" stroke="%[4]s" stroke-width="%g"/>`+"\n", x0, y(r),
				x0+wide, colour, stroke)
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="end" fill="#333333">%g×</text>`+"\n", x0-8, y(r)+4, r)
		}
		for size := int64(from); size <= to; size <<= 5 {
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1[1]f" y2="%.1[3]f" stroke="#eeeeee"/>`+"\n", x(size), top,
				top+high)
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#333333">%s</text>`+"\n", x(size), top+high+18,
				bytesText(size))
		}
		for _, c := range curves {
			t, err := readTimes(newest(root, fmt.Sprintf("perf.%s.float.%s.json", c.collective, mode)))
			if err != nil {
				return nil, err
			}
			if first == nil {
				first = t
			}
			if t.other != first.other || t.ranks != first.ranks || t.product != first.product {
				return nil, fmt.Errorf("%s %s: not of the machine or the library that the first file is of", c.collective, mode)
			}
			if !slices.Contains(commits, t.commit) {
				commits = append(commits, t.commit)
			}
			var points []string
			for _, size := range sizes(t) {
				u := t.us[size]
				if r := u[1] / u[0]; r < least || r > most || size < from || size > to {
					return nil, fmt.Errorf("%s %s at %d bytes, %.2f, is outside the picture", c.collective, mode, size, r)
				}
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(size), y(u[1]/u[0])))
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
				strings.Join(points, " "), c.colour, c.dash)
		}
		title := "operations launched one by one"
		if mode == "graph" {
			title = "operations in a CUDA graph"
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#333333">%s</text>`+"\n", x0+wide/2, top-10,
			title)
	}
	for i, c := range curves {
		lx, ly := left+float64(i%4)*200, top+high+52+float64(i/4)*22
		fmt.Fprintf(&b,
			`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1[2]f" stroke="%[4]s" stroke-width="3" stroke-dasharray="%s"/>`+"\n", lx,
			ly-4, lx+26, c.colour, c.dash)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="#333333">%s</text>`+"\n", lx+34, ly, c.collective)
	}
	word := "commit"
	if len(commits) > 1 {
		word = "commits"
	}
	title := fmt.Sprintf("Time of %s divided by goccl's, by size: above 1×, goccl is faster", first.other)
	of := fmt.Sprintf("%d × %s, float, %s %s", first.ranks, first.product, word, strings.Join(commits, " and "))
	fmt.Fprintf(&b, `<text x="%d" y="20" text-anchor="middle" font-size="15" fill="#000000">%s</text>`+"\n", width/2,
		html.EscapeString(title))
	fmt.Fprintf(&b, `<text x="%d" y="39" text-anchor="middle" fill="#333333">%s</text>`+"\n</svg>\n", width/2,
		html.EscapeString(of))
	return []byte(b.String()), nil
}
