package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccl/goccl/cmd/goccl/internal/chaos"
)

// scoreboard is what runs of `goccl chaos` found, by fault and phase.
type scoreboard struct {
	cells    map[[2]string]*chaos.Cell
	commits  []string
	machines []string
	ranks    int
}

// readScoreboards reads the runs of several folders, oldest first. What a later one tried anew counts in place of what
// the earlier ones found there.
func readScoreboards(root string, folders []string) (*scoreboard, error) {
	all := &scoreboard{cells: map[[2]string]*chaos.Cell{}}
	for _, folder := range folders {
		s, err := readScoreboard(root, folder)
		if err != nil {
			return nil, err
		}
		maps.Copy(all.cells, s.cells)
		all.commits, all.machines = append(all.commits, s.commits...), append(all.machines, s.machines...)
		all.ranks = s.ranks
	}
	slices.Sort(all.machines)
	all.machines = slices.Compact(all.machines)
	return all, nil
}

func readScoreboard(root, folder string) (*scoreboard, error) {
	files, err := filepath.Glob(filepath.Join(root, folder, "chaos*.json"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no chaos*.json", folder)
	}
	if err != nil {
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
		if !slices.Contains(s.commits, r.Commit) {
			s.commits = append(s.commits, r.Commit)
		}
		if !slices.Contains(s.machines, r.Machine) {
			s.machines = append(s.machines, r.Machine)
		}
		s.ranks = r.Ranks
		for _, c := range r.Cells {
			s.add(c)
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
		return fuzzed(root, folders[len(folders)-1])
	}
	s, err := readScoreboards(root, folders)
	if err != nil {
		return "", err
	}
	switch part {
	case "summary":
		return s.summary(folders), nil
	case "classes":
		return s.classes(), nil
	case "cells":
		return s.table(), nil
	case "times":
		return s.times(), nil
	}
	return "", fmt.Errorf("the scoreboard has no part %q", part)
}

func (s *scoreboard) summary(folders []string) string {
	all := s.where(func(*chaos.Cell) bool { return true })
	var links []string
	for _, f := range folders {
		links = append(links, fmt.Sprintf("[%s](../%s)", filepath.Base(f), f))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d trials of %d ranks on %s,\ncommits %s\n(results: %s):\n\n| outcome | trials |\n|---|---:|\n",
		all.Trials, s.ranks, strings.Join(s.machines, " or "), strings.Join(s.commits, ", "), strings.Join(links, ",\n"))
	for _, o := range chaos.Outcomes() {
		fmt.Fprintf(&b, "| %s | %d |\n", o, all.Outcomes[o])
	}
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

// table has a cell for each fault and phase: the trials that were handled, of all.
func (s *scoreboard) table() string {
	var b strings.Builder
	b.WriteString("| fault |")
	rule := "|---|"
	for _, p := range chaos.PhaseNames() {
		b.WriteString(" " + p + " |")
		rule += "---:|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, f := range chaos.FaultNames() {
		if s.where(func(c *chaos.Cell) bool { return c.Fault == f }).Trials == 0 {
			continue
		}
		_, help := chaos.NumberOf(f)
		fmt.Fprintf(&b, "| `%s`: %s |", f, help)
		for _, p := range chaos.PhaseNames() {
			switch c := s.cells[[2]string{f, p}]; {
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
	return b.String()
}

// times are those of deaths, by phase.
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

// fuzzed lists the fuzz targets that were run, and on how many inputs.
func fuzzed(root, folder string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, folder, "fuzz.json"))
	if err != nil {
		return "", err
	}
	var runs []struct {
		Package, Target string
		Inputs          int
	}
	if err := json.Unmarshal(text, &runs); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("| package | target | inputs |\n|---|---|---:|\n")
	for _, r := range runs {
		fmt.Fprintf(&b, "| %s | `%s` | %d |\n", r.Package, r.Target, r.Inputs)
	}
	return b.String(), nil
}
