package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/topo"
)

// figure is one result. Met is there when a target is.
type figure struct {
	Name    string    `json:"name"`
	Value   float64   `json:"value"`
	Unit    string    `json:"unit"` // us, ms, GB/s (10⁹ bytes per second)
	Target  *target   `json:"target,omitempty"`
	Met     *bool     `json:"met,omitempty"`
	Detail  string    `json:"detail"`
	Sweep   []point   `json:"sweep,omitempty"`
	Ranks   int       `json:"ranks"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Command []string  `json:"command"`
	Time    time.Time `json:"time"`
}

// target is a bound on a value.
type target struct {
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
}

// point is one shape of a sweep.
type point struct {
	Shape string  `json:"shape"`
	Value float64 `json:"value"`
}

func upTo(v float64) *target    { return &target{AtMost: &v} }
func atLeast(v float64) *target { return &target{AtLeast: &v} }

func (t *target) met(v float64) bool {
	return (t.AtLeast == nil || v >= *t.AtLeast) && (t.AtMost == nil || v <= *t.AtMost)
}

func (t *target) String() string {
	if t.AtLeast != nil {
		return fmt.Sprintf("≥ %g", *t.AtLeast)
	}
	return fmt.Sprintf("≤ %g", *t.AtMost)
}

// report prints figures as they come and keeps them for the file.
type report struct {
	common  figure
	targets bool // they are GPUs'
	figures []figure
}

func newReport(ctx context.Context, r *rank, targets bool) *report {
	machine := fmt.Sprintf("%d × %s", r.WorldSize(), r.dev.Name())
	if m, err := topo.Detect(ctx); err == nil {
		if m.Driver != "" {
			machine += ", driver " + m.Driver
		}
		machine += fmt.Sprintf(", %d processors", m.CPU.Threads)
		if m.CPU.Model != "" {
			machine += " (" + strings.TrimSpace(m.CPU.Model) + ")"
		}
	}
	p := &report{targets: targets, common: figure{Ranks: r.WorldSize(), Commit: buildinfo.Read().Commit, Machine: machine, Command: append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...),
		Time: time.Now().UTC().Truncate(time.Second)}}
	fmt.Printf("# %s\n# %-36s %12s %-5s %-10s\n", machine, "figure", "value", "", "target")
	return p
}

// add completes and prints a figure.
func (p *report) add(f figure) {
	f.Ranks, f.Commit, f.Machine, f.Command, f.Time = p.common.Ranks, p.common.Commit, p.common.Machine, p.common.Command, p.common.Time
	bound, verdict := "", ""
	if !p.targets {
		f.Target = nil
	}
	if f.Target != nil {
		met := f.Target.met(f.Value)
		f.Met = &met
		bound, verdict = f.Target.String(), "met"
		if !met {
			verdict = "MISSED"
		}
	}
	fmt.Printf("  %-36s %12.3f %-5s %-10s %-7s %s\n", f.Name, f.Value, f.Unit, bound, verdict, f.Detail)
	for _, s := range f.Sweep {
		fmt.Printf("    %-34s %12.3f %-5s\n", s.Shape, s.Value, f.Unit)
	}
	p.figures = append(p.figures, f)
}

// write stores the figures as a JSON array at path, whole or not at all.
func (p *report) write(path string) (err error) {
	b, err := json.MarshalIndent(p.figures, "", " ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Chmod(0o644)
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
