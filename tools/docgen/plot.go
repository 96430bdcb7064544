package main

import (
	"fmt"
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

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d"
  font-family="Helvetica, Arial, sans-serif" font-size="13">
<rect width="%[1]d" height="%[2]d" fill="#ffffff"/>
`

// ratioCurves are the collectives of the picture.
var ratioCurves = []curve{{name: "all_reduce", colour: "#0072b2"}, {name: "all_gather", colour: "#d55e00"},
	{name: "reduce_scatter", colour: "#009e73"}, {name: "all_to_all", colour: "#cc79a7"},
	{name: "all_to_all_v", colour: "#cc79a7", dash: "5 3"}, {name: "broadcast", colour: "#e69f00"},
	{name: "reduce", colour: "#56b4e9"}, {name: "send_recv", colour: "#555555", dash: "5 3"}}

// ratios draws the other library's time divided by goccl's over the message size, eager and in graphs.
func ratios(root string) ([]byte, error) {
	c := chart{from: 1 << 10, to: 1 << 30, marks: []int64{1 << 10, 1 << 15, 1 << 20, 1 << 25, 1 << 30},
		panels: [2]string{"operations launched one by one", "operations in a CUDA graph"},
		curves: slices.Clone(ratioCurves)}
	var first *times
	var commits []string
	for i, mode := range []string{"eager", "graph"} {
		for k := range c.curves {
			name := c.curves[k].name
			t, err := readTimes(newest(root, fmt.Sprintf("perf.%s.float.%s.json", name, mode)))
			if err != nil {
				return nil, err
			}
			if first == nil {
				first = t
			}
			if t.other != first.other || t.ranks != first.ranks || t.product != first.product {
				return nil, fmt.Errorf("%s %s: not of the machine or the library that the first file is of", name, mode)
			}
			if !slices.Contains(commits, t.commit) {
				commits = append(commits, t.commit)
			}
			for _, size := range sizes(t) {
				c.curves[k].points[i] = append(c.curves[k].points[i], point{size, t.us[size][1] / t.us[size][0]})
			}
		}
	}
	word := "commit"
	if len(commits) > 1 {
		word = "commits"
	}
	c.title = fmt.Sprintf("Time of %s divided by goccl's, by size: above 1×, goccl is faster", first.other)
	c.of = fmt.Sprintf("%d × %s, float, %s %s", first.ranks, first.product, word, strings.Join(commits, " and "))
	return c.draw()
}
