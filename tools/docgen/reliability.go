package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccl/goccl/test/chaos"
)

// scoreboard is what runs of `goccl chaos` found, by fault and phase.
type scoreboard struct {
	cells    map[[2]string]*chaos.Cell
	commits  []string
	machines []string
	folders  []string
	ranks    int
	gpus     bool
}

// goal is how many trials a cell needs.
const goal = 50

// readScoreboards reads the runs of several folders on a device, oldest first. A later run replaces earlier results of
// a cell if it has enough trials, or no fewer; otherwise the trials are added.
func readScoreboards(root, device string, folders []string) (*scoreboard, error) {
	all := &scoreboard{cells: map[[2]string]*chaos.Cell{}, gpus: device == "cuda"}
	for _, folder := range folders {
		s, err := readScoreboard(root, device, folder)
		if err != nil {
			return nil, err
		}
		for at, c := range s.cells {
			if old := all.cells[at]; old != nil && c.Trials < min(goal, old.Trials) {
				all.add(c)
			} else {
				all.cells[at] = c
			}
		}
		all.commits, all.machines = append(all.commits, s.commits...), append(all.machines, s.machines...)
		if len(s.cells) > 0 {
			all.ranks, all.folders = s.ranks, append(all.folders, folder)
		}
	}
	slices.Sort(all.machines)
	all.machines, all.commits = slices.Compact(all.machines), slices.Compact(all.commits)
	return all, nil
}

func readScoreboard(root, device, folder string) (*scoreboard, error) {
	files, err := filepath.Glob(filepath.Join(root, folder, "chaos*.json"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
		return nil, err
	}
	s := &scoreboard{cells: map[[2]string]*chaos.Cell{}}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var r chaos.Result
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if r.Device != device {
			continue
		}
		if !slices.Contains(s.commits, r.Commit) {
			s.commits = append(s.commits, r.Commit)
		}
		if !slices.Contains(s.machines, r.Machine) {
			s.machines = append(s.machines, r.Machine)
		}
		s.ranks = r.Ranks
		for _, c := range r.Cells {
			if c.Trials > 0 { // else the run ended before it
				s.add(c)
			}
		}
	}
	return s, nil
}

func (s *scoreboard) add(c *chaos.Cell) {
	sum := s.cells[[2]string{c.Fault, c.Phase}]
	if sum == nil {
		sum = &chaos.Cell{Fault: c.Fault, Phase: c.Phase, Outcomes: map[string]int{}}
		s.cells[[2]string{c.Fault, c.Phase}] = sum
	}
	sum.Trials, sum.Right, sum.Judged = sum.Trials+c.Trials, sum.Right+c.Right, sum.Judged+c.Judged
	for o, n := range c.Outcomes {
		sum.Outcomes[o] += n
	}
	sum.Named, sum.Shrunk = append(sum.Named, c.Named...), append(sum.Shrunk, c.Shrunk...)
}

// where returns the sum of the cells that fit, in the order of the phases.
func (s *scoreboard) where(fits func(c *chaos.Cell) bool) *chaos.Cell {
	sum := &scoreboard{cells: map[[2]string]*chaos.Cell{}}
	for _, f := range chaos.FaultNames() {
		for _, p := range chaos.PhaseNames() {
			if c := s.cells[[2]string{f, p}]; c != nil && fits(c) {
				all := *c
				all.Fault, all.Phase = "", ""
				sum.add(&all)
			}
		}
	}
	if c := sum.cells[[2]string{}]; c != nil {
		return c
	}
	return &chaos.Cell{}
}

// reliability is a part of docs/reliability.md.
func reliability(root, part string, folders []string) (string, error) {
	folders = slices.Clone(folders)
	for i, f := range folders {
		folders[i] = filepath.Join("bench/results", f)
	}
	if part == "fuzz" {
		return fuzzed(root, folders)
	}
	device := map[bool]string{false: "host", true: "cuda"}[part == "gpus"]
	s, err := readScoreboards(root, device, folders)
	if err != nil {
		return "", err
	}
	switch part {
	case "summary":
		return s.summary(), nil
	case "gpus":
		return s.summary() + "\n" + s.table() + "\n" + s.times(), nil
	case "classes":
		return s.classes(), nil
	case "cells":
		return s.table(), nil
	case "times":
		return s.times(), nil
	}
	return "", fmt.Errorf("the scoreboard has no part %q", part)
}

func (s *scoreboard) summary() string {
	all := s.where(func(*chaos.Cell) bool { return true })
	var links []string
	for _, f := range s.folders {
		links = append(links, fmt.Sprintf("[%s](../%s)", filepath.Base(f), f))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d trials of %d ranks on %s,\ncommits %s\n(results: %s):\n\n| outcome | trials |\n|---|---:|\n",
		all.Trials, s.ranks, strings.Join(s.machines, " or "), strings.Join(s.commits, ", "), strings.Join(links, ",\n"))
	for _, o := range chaos.Outcomes() {
		fmt.Fprintf(&b, "| %s | %d |\n", o, all.Outcomes[o])
	}
	tried, possible := 0, 0
	for _, f := range chaos.FaultNames() {
		for _, p := range chaos.PhaseNames() {
			if chaos.Happens(f, p, s.gpus) {
				possible++
			}
			if c := s.cells[[2]string{f, p}]; c != nil && c.Trials > 0 {
				tried++
			}
		}
	}
	fmt.Fprintf(&b, "\n%d of %d cells were tried.\n", tried, possible)
	if all.Judged > 0 {
		fmt.Fprintf(&b, "\nOf %d errors with a verdict %d had the fault's kind and rank.\n", all.Judged, all.Right)
	}
	return b.String()
}

// classes has a row for each of the 25 faults.
func (s *scoreboard) classes() string {
	var b strings.Builder
	b.WriteString("| | fault | trials | handled | p99 named, ms | also held by |\n|---:|---|---:|---:|---:|---|\n")
	for _, k := range chaos.Classes() {
		c := s.where(func(c *chaos.Cell) bool { n, _ := chaos.NumberOf(c.Fault); return n == k.Number })
		trials, handled := "–", "–"
		if c.Trials > 0 {
			trials, handled = fmt.Sprint(c.Trials), fmt.Sprint(c.Handled())
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s |\n", k.Number, k.Name, trials, handled, millis(c.Named, 0.99),
			k.Elsewhere)
	}
	return b.String()
}

// table has a cell for each fault and phase: the trials that were handled, of all; "–" if it was not tried, and nothing
// if the fault does not happen in the phase.
func (s *scoreboard) table() string {
	var b strings.Builder
	b.WriteString("| fault |")
	rule := "|---|"
	for _, p := range chaos.PhaseNames() {
		b.WriteString(" " + p + " |")
		rule += "---:|"
	}
	b.WriteString("\n" + rule + "\n")
	var untried []string
	for _, f := range chaos.FaultNames() {
		if s.where(func(c *chaos.Cell) bool { return c.Fault == f }).Trials == 0 {
			untried = append(untried, "`"+f+"`")
			continue
		}
		_, help := chaos.NumberOf(f)
		fmt.Fprintf(&b, "| `%s`: %s |", f, help)
		for _, p := range chaos.PhaseNames() {
			switch c := s.cells[[2]string{f, p}]; {
			case (c == nil || c.Trials == 0) && chaos.Happens(f, p, s.gpus):
				b.WriteString(" – |")
			case c == nil || c.Trials == 0:
				b.WriteString(" |")
			case c.Handled() == c.Trials:
				fmt.Fprintf(&b, " %d |", c.Trials)
			default:
				fmt.Fprintf(&b, " **%d of %d** |", c.Handled(), c.Trials)
			}
		}
		b.WriteByte('\n')
	}
	if len(untried) > 0 {
		fmt.Fprintf(&b, "\nNot tried in any phase: %s.\n", strings.Join(untried, ",\n"))
	}
	return b.String()
}

// times is the table of detection times after deaths, by phase.
func (s *scoreboard) times() string {
	var b strings.Builder
	b.WriteString("| phase | deaths | named, median | p99 | shrunk, median | p99 |\n|---|---:|---:|---:|---:|---:|\n")
	for _, p := range chaos.PhaseNames() {
		c := s.where(func(c *chaos.Cell) bool { return c.Phase == p && chaos.IsDeath(c.Fault) })
		if c.Trials > 0 {
			fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s |\n", p, c.Trials, millis(c.Named, 0.5), millis(c.Named, 0.99),
				millis(c.Shrunk, 0.5), millis(c.Shrunk, 0.99))
		}
	}
	return b.String()
}

func millis(times []float64, q float64) string {
	if len(times) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", chaos.Quantile(times, q))
}

// fuzzed lists the fuzz targets that were run, and on how many inputs, by the latest folder that tells.
func fuzzed(root string, folders []string) (string, error) {
	var text []byte
	for _, folder := range folders {
		found, err := os.ReadFile(filepath.Join(root, folder, "fuzz.json"))
		if err == nil {
			text = found
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	var runs []struct {
		Package, Target  string
		Inputs, Failures int
	}
	if err := json.Unmarshal(text, &runs); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| package | target | inputs | failures |\n|---|---|---:|---:|\n")
	for _, r := range runs {
		fmt.Fprintf(&b, "| %s | `%s` | %d | %d |\n", r.Package, r.Target, r.Inputs, r.Failures)
	}
	return b.String(), nil
}

// addRun adds a folder of results to the markers of the scoreboard.
func addRun(root, folder string) error {
	path := filepath.Join(root, "docs", "reliability.md")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(root, "bench", "results", folder)); err != nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if spec, ok := strings.CutPrefix(line, markerHead+"chaos "); ok && !slices.Contains(strings.Fields(spec), folder) {
			line = strings.Replace(line, markerTail, " "+folder+markerTail, 1)
		}
		out.WriteString(line)
	}
	return os.WriteFile(path, []byte(out.String()), 0o644)
}
