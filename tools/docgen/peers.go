package main

import (
	"encoding/json"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
)

// inferenceResult is what the picture of inference shows.
const inferenceResult = "bench/results/2026-11-26-4xH100-627cbe5/inference.json"

// peerCurves are the libraries of that picture: the best of the contenders of bench/inference whose names begin so.
var peerCurves = []struct{ contenders, label, colour string }{
	{"FlashInfer", "FlashInfer, best", "#d55e00"},
	{"vLLM custom", "vLLM custom, best", "#009e73"},
	{"symm_mem", "symm_mem, best", "#56b4e9"},
	{"NCCL", "NCCL", "#555555"},
}

type inferenceUnit struct {
	Part, Contender string
	Rows            []struct {
		Bytes int64
		Mode  string
		Us    float64
	}
}

// best returns the least times by size of the contenders that are meant.
func best(units []inferenceUnit, part, mode string, meant func(contender string) bool) map[int64]float64 {
	found := map[int64]float64{}
	for _, u := range units {
		if u.Part != part || !meant(u.Contender) {
			continue
		}
		for _, r := range u.Rows {
			if us, some := found[r.Bytes]; r.Mode == mode && (!some || r.Us < us) {
				found[r.Bytes] = r.Us
			}
		}
	}
	return found
}

// peers draws the peers' times divided by goccl's: of an all-reduce alone, and of its share of a decode step.
func peers(root string) ([]byte, error) {
	const width, height = 900, 424
	f := frame{left: 56, top: 72, wide: 330, high: 270, gap: 90, least: 0.5, most: 5, from: 1 << 10, to: 8 << 20,
		sizes: []int64{1 << 10, 16 << 10, 256 << 10, 4 << 20}}
	text, err := os.ReadFile(filepath.Join(root, inferenceResult))
	if err != nil {
		return nil, err
	}
	var result struct {
		Commit  string
		Machine struct{ GPUs []string }
		Units   []inferenceUnit
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, fmt.Errorf("%s: %w", inferenceResult, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, svgHead, width, height)
	for i, half := range []struct{ part, mode, ours, title string }{
		{"all_reduce", "graph", "goccl", "an all-reduce in a CUDA graph"},
		{"step", "step", "goccl preloaded", "what it adds to a layer of a decode step"},
	} {
		p := f.panel(i)
		p.draw(&b, half.title)
		ours := best(result.Units, half.part, half.mode, func(name string) bool { return name == half.ours })
		for _, c := range peerCurves {
			theirs := best(result.Units, half.part, half.mode, func(name string) bool {
				return strings.HasPrefix(name, c.contenders)
			})
			var points []string
			for size := f.from; size <= f.to; size *= 2 {
				r := theirs[size] / ours[size]
				if theirs[size] == 0 || ours[size] == 0 {
					continue
				}
				if r < f.least || r > f.most {
					return nil, fmt.Errorf("%s of %d bytes, %.2f, is outside the picture", c.label, size, r)
				}
				points = append(points, fmt.Sprintf("%.1f,%.1f", p.x(size), p.y(r)))
			}
			if len(points) == 0 {
				return nil, fmt.Errorf("%s: no times of %s", inferenceResult, c.label)
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n",
				strings.Join(points, " "), c.colour)
		}
	}
	for i, c := range peerCurves {
		lx, ly := f.left+float64(i)*210, f.top+f.high+52
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1[2]f" stroke="%[4]s" stroke-width="3"/>`+"\n", lx, ly-4,
			lx+26, c.colour)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" fill="#333333">%s</text>`+"\n", lx+34, ly, c.label)
	}
	fmt.Fprintf(&b, `<text x="%d" y="20" text-anchor="middle" font-size="15" fill="#000000">%s</text>`+"\n", width/2,
		"Time of others divided by goccl's, by size: above 1×, goccl is faster")
	of := fmt.Sprintf("%d × %s, bfloat16, commit %s", len(result.Machine.GPUs), result.Machine.GPUs[0], result.Commit)
	fmt.Fprintf(&b, `<text x="%d" y="39" text-anchor="middle" fill="#333333">%s</text>`+"\n</svg>\n", width/2,
		html.EscapeString(of))
	return []byte(b.String()), nil
}
