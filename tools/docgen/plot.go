package main

import (
	"fmt"
	"html"
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
	const width, height = 900, 446
	f := frame{left: 56, top: 72, wide: 330, high: 270, gap: 90, least: 0.5, most: 5, from: 1 << 10, to: 1 << 30,
		sizes: []int64{1 << 10, 1 << 15, 1 << 20, 1 << 25, 1 << 30}}
	var b strings.Builder
	fmt.Fprintf(&b, svgHead, width, height)
	var first *times
	var commits []string
	for i, mode := range []string{"eager", "graph"} {
		title := "operations launched one by one"
		if mode == "graph" {
			title = "operations in a CUDA graph"
		}
		p := f.panel(i)
		p.draw(&b, title)
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
				if r := u[1] / u[0]; r < f.least || r > f.most || size < f.from || size > f.to {
					return nil, fmt.Errorf("%s %s at %d bytes, %.2f, is outside the picture", c.collective, mode, size, r)
				}
				points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(size), p.y(u[1]/u[0])))
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
				strings.Join(points, " "), c.colour, c.dash)
		}
	}
	for i, c := range curves {
		lx, ly := f.left+float64(i%4)*200, f.top+f.high+52+float64(i/4)*22
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
