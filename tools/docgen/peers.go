package main

import (
	"encoding/json"
	"fmt"
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
	c := chart{from: 1 << 10, to: 8 << 20, marks: []int64{1 << 10, 16 << 10, 256 << 10, 4 << 20},
		title: "Time of others divided by goccl's, by size: above 1×, goccl is faster",
		of:    fmt.Sprintf("%d × %s, bfloat16, commit %s", len(result.Machine.GPUs), result.Machine.GPUs[0], result.Commit)}
	for _, p := range peerCurves {
		c.curves = append(c.curves, curve{name: p.label, colour: p.colour})
	}
	for i, half := range []struct{ part, mode, title string }{
		{"all_reduce", "graph", "an all-reduce in a CUDA graph"},
		{"step", "step", "what it adds to a layer of a decode step"},
	} {
		c.panels[i] = half.title
		ours := best(result.Units, half.part, half.mode, func(name string) bool { return name == "goccl" })
		for k, p := range peerCurves {
			theirs := best(result.Units, half.part, half.mode, func(name string) bool {
				return strings.HasPrefix(name, p.contenders)
			})
			points := &c.curves[k].points[i]
			for size := c.from; size <= c.to; size *= 2 {
				if theirs[size] != 0 && ours[size] != 0 {
					*points = append(*points, point{size, theirs[size] / ours[size]})
				}
			}
			if len(*points) == 0 {
				return nil, fmt.Errorf("%s: no times of %s", inferenceResult, p.label)
			}
		}
	}
	return c.draw()
}
