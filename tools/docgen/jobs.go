package main

import (
	"cmp"
	"fmt"
	"html"
	"path/filepath"
	"slices"
	"strings"
)

// jobRow is a row of bench/training or bench/overlap: one library in one turn.
type jobRow struct {
	Library, Mode, Collective, Priority string
	Tokens, Bytes                       int64
	Wrong                               int64
	Ms                                  float64 // a training step
	Exposed                             float64 `json:"exposed_ms"` // of it
	TokensPerS                          float64 `json:"tokens_per_s"`
	Alone                               float64 `json:"alone_us"` // a collective alone on its stream
	BothByMax                           float64 `json:"both_by_max"`
	Graph                               float64 `json:"graph_us"`
	Eager                               float64 `json:"eager_us"`
}

// job is a file of bench/training or bench/overlap.
type job struct {
	Commit  string
	Ranks   int
	Machine map[string]struct {
		Torch, Library string
		GPUs           []string
	}
	Failures map[string]string
	Rows     []jobRow
}

// jobCase is what was measured on both libraries.
type jobCase struct {
	mode, collective, priority string
	tokens, bytes              int64
}

// jobFigures are the medians over the turns of both libraries.
type jobFigures struct {
	jobCase
	nccl, goccl jobRow
}

// readJob reads a file, and its cases in their order. It refuses turns that failed, wrong data, and a case of one
// library only.
func readJob(path string) (*job, []jobFigures, error) {
	var j job
	if err := readJSON(path, &j); err != nil {
		return nil, nil, err
	}
	if len(j.Failures) > 0 {
		return nil, nil, fmt.Errorf("%s: turns failed: %v", path, j.Failures)
	}
	var order []jobCase
	rows := map[jobCase]map[string][]jobRow{}
	for _, r := range j.Rows {
		c := jobCase{r.Mode, r.Collective, r.Priority, r.Tokens, r.Bytes}
		if r.Wrong != 0 {
			return nil, nil, fmt.Errorf("%s: %s of %d bytes is wrong: it has no time", path, r.Collective, r.Bytes)
		}
		if rows[c] == nil {
			order, rows[c] = append(order, c), map[string][]jobRow{}
		}
		rows[c][r.Library] = append(rows[c][r.Library], r)
	}
	var out []jobFigures
	for _, c := range order {
		if len(rows[c]["nccl"]) == 0 || len(rows[c]["goccl"]) == 0 {
			return nil, nil, fmt.Errorf("%s: %+v was not measured on both libraries", path, c)
		}
		out = append(out, jobFigures{c, medians(rows[c]["nccl"]), medians(rows[c]["goccl"])})
	}
	if len(out) == 0 || len(j.Machine["nccl"].GPUs) == 0 {
		return nil, nil, fmt.Errorf("%s: nothing was measured on GPUs", path)
	}
	return &j, out, nil
}

func medians(rows []jobRow) (m jobRow) {
	for _, field := range []func(*jobRow) *float64{
		func(r *jobRow) *float64 { return &r.Ms }, func(r *jobRow) *float64 { return &r.Exposed },
		func(r *jobRow) *float64 { return &r.TokensPerS }, func(r *jobRow) *float64 { return &r.Alone },
		func(r *jobRow) *float64 { return &r.BothByMax }, func(r *jobRow) *float64 { return &r.Graph },
		func(r *jobRow) *float64 { return &r.Eager },
	} {
		var v []float64
		for i := range rows {
			v = append(v, *field(&rows[i]))
		}
		slices.Sort(v)
		*field(&m) = (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	}
	return m
}

// of says on what j was measured.
func (j *job) of() string {
	m := j.Machine["nccl"]
	return fmt.Sprintf("%d × %s, PyTorch %s, NCCL %s, goccl at commit %s", j.Ranks, m.GPUs[0],
		strings.Split(m.Torch, "+")[0], m.Library, j.Commit)
}

// steps are the names of bench/training's modes.
var steps = map[string]string{"ddp": "DDP", "fsdp": "FSDP2", "tp": "TP + SP", "tp_graph": "TP + SP, graph"}

// jobTable returns the table of a file: training, beside or alone.
func jobTable(root, dir, kind, file string) (string, error) {
	j, figures, err := readJob(filepath.Join(root, file))
	if err != nil {
		return "", err
	}
	link, err := filepath.Rel(dir, file)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s; libraries by turns ([file](%s)).\n\n", j.of(), link)
	switch kind {
	case "training":
		b.WriteString("| step | tokens | NCCL, ms | goccl, ms | goccl / NCCL | exposed, ms: NCCL | goccl " +
			"| goccl, tokens/s |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
		for _, f := range figures {
			fmt.Fprintf(&b, "| %s | %d | %.1f | %.1f | %.2f | %.1f | %.1f | %.0f |\n", cmp.Or(steps[f.mode], f.mode), f.tokens,
				f.nccl.Ms, f.goccl.Ms, f.goccl.Ms/f.nccl.Ms, f.nccl.Exposed, f.goccl.Exposed, f.goccl.TokensPerS)
		}
	case "beside":
		b.WriteString("| collective | size | stream's priority | alone, µs: NCCL | goccl | both / max: NCCL | goccl |\n" +
			"|---|---:|---|---:|---:|---:|---:|\n")
		for _, f := range figures {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %.2f | %.2f |\n", f.collective, bytesText(f.bytes), f.priority,
				microseconds(f.nccl.Alone), microseconds(f.goccl.Alone), f.nccl.BothByMax, f.goccl.BothByMax)
		}
	case "alone":
		b.WriteString("| collective | size | graph, µs: NCCL | goccl | × | eager, µs: NCCL | goccl | × |\n" +
			"|---|---:|---:|---:|---:|---:|---:|---:|\n")
		for _, f := range figures {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %.2f | %s | %s | %.2f |\n", f.collective, bytesText(f.bytes),
				microseconds(f.nccl.Graph), microseconds(f.goccl.Graph), f.nccl.Graph/f.goccl.Graph, microseconds(f.nccl.Eager),
				microseconds(f.goccl.Eager), f.nccl.Eager/f.goccl.Eager)
		}
	}
	return b.String(), nil
}

// stepsFile is the file of bench/results with the picture's training steps: the newest, or "".
func stepsFile(root string) (string, error) {
	files, err := filepath.Glob(filepath.Join(root, "bench/results/*/training.steps.json"))
	if err != nil || len(files) == 0 {
		return "", err
	}
	slices.Sort(files) // folders begin with the date
	return files[len(files)-1], nil
}

// drawSteps draws the training steps of a file: bars of both libraries, with the communication that computation does
// not hide.
func drawSteps(path string) ([]byte, error) {
	const left, wide, bar, group, top = 190, 560, 16, 46, 78
	j, figures, err := readJob(path)
	if err != nil {
		return nil, err
	}
	longest := 0.0
	for _, f := range figures {
		longest = max(longest, f.nccl.Ms, f.goccl.Ms)
	}
	width, height := 900, top+group*len(figures)+30
	var b strings.Builder
	fmt.Fprintf(&b, svgHead, width, height)
	text := func(x, y float64, anchor, size, what string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%s" fill="#333333">%s</text>`+"\n", x, y, anchor,
			size, html.EscapeString(what))
	}
	text(450, 20, "middle", "15", "A training step of a small Llama, ms; light: communication that the step waits for")
	text(450, 39, "middle", "13", j.of())
	for i, f := range figures {
		y := float64(top + group*i)
		text(left-12, y+bar+4, "end", "13", fmt.Sprintf("%s, %d tokens", cmp.Or(steps[f.mode], f.mode), f.tokens))
		for k, r := range []jobRow{f.nccl, f.goccl} {
			colours := [][2]string{{"#555555", "#bbbbbb"}, {"#0072b2", "#9ecae9"}}[k]
			at, scale := y+float64(k*bar), wide/longest
			hidden := r.Ms - min(max(r.Exposed, 0), r.Ms)
			fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n", left, at, hidden*scale, bar-2,
				colours[0])
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s"/>`+"\n", left+hidden*scale, at,
				(r.Ms-hidden)*scale, bar-2, colours[1])
			label := fmt.Sprintf("%.1f NCCL", r.Ms)
			if k == 1 {
				label = fmt.Sprintf("%.1f goccl, %.2f ×", r.Ms, r.Ms/f.nccl.Ms)
			}
			text(left+r.Ms*scale+6, at+bar-5, "start", "12", label)
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String()), nil
}
