package main

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
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

// peers draws the peers' times divided by goccl's: of an all-reduce alone, and of what it adds to a decode step.
func peers(root string) ([]byte, error) {
	const (
		width, height         = 900, 424
		left, top, wide, high = 56.0, 72.0, 330.0, 270.0
		gap                   = 90.0
		least, most           = 0.5, 5.0 // of the axis, which is logarithmic
		from, to              = 1 << 10, 8 << 20
	)
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
	y := func(r float64) float64 { return top + high*(1-math.Log(r/least)/math.Log(most/least)) }
	var b strings.Builder
	fmt.Fprintf(&b, svgHead, width, height)
	for i, panel := range []struct{ part, mode, ours, title string }{
		{"all_reduce", "graph", "goccl", "an all-reduce in a CUDA graph"},
		{"step", "step", "goccl preloaded", "what it adds to a layer of a decode step"},
	} {
		x0 := left + float64(i)*(wide+gap)
		x := func(size int64) float64 { return x0 + wide*math.Log(float64(size)/from)/math.Log(to/from) }
		for _, r := range []float64{0.5, 1, 2, 4} {
			colour := map[bool]string{true: "#333333", false: "#dddddd"}[r == 1]
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1[2]f" stroke="%[4]s"/>`+"\n", x0, y(r), x0+wide, colour)
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="end" fill="#333333">%g×</text>`+"\n", x0-8, y(r)+4, r)
		}
		for _, size := range []int64{1 << 10, 16 << 10, 256 << 10, 4 << 20} {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#333333">%s</text>`+"\n", x(size), top+high+18,
				bytesText(size))
		}
		ours := best(result.Units, panel.part, panel.mode, func(name string) bool { return name == panel.ours })
		for _, c := range peerCurves {
			theirs := best(result.Units, panel.part, panel.mode, func(name string) bool {
				return strings.HasPrefix(name, c.contenders)
			})
			var points []string
			for size := int64(from); size <= to; size *= 2 {
				r := theirs[size] / ours[size]
				if theirs[size] == 0 || ours[size] == 0 {
					continue
				}
				if r < least || r > most {
					return nil, fmt.Errorf("%s of %d bytes, %.2f, is outside the picture", c.label, size, r)
				}
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(size), y(r)))
			}
			if len(points) == 0 {
				return nil, fmt.Errorf("%s: no times of %s", inferenceResult, c.label)
			}
			fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n",
				strings.Join(points, " "), c.colour)
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#333333">%s</text>`+"\n", x0+wide/2, top-10,
			panel.title)
	}
	for i, c := range peerCurves {
		lx, ly := left+float64(i)*210, top+high+52
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
