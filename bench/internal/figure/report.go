package figure

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/job/topo"
)

// Figure is one result. Met is set when there is a target.
type Figure struct {
	Name    string    `json:"name"`
	Value   float64   `json:"value"`
	Unit    string    `json:"unit"` // us, ms, MiB, GB/s (10⁹ bytes per second), or the counted unit
	Target  *Target   `json:"target,omitempty"`
	Met     *bool     `json:"met,omitempty"`
	Detail  string    `json:"detail"`
	Sweep   []Point   `json:"sweep,omitempty"`
	Ranks   int       `json:"ranks"`
	Commit  string    `json:"commit"`
	Machine string    `json:"machine"`
	Command []string  `json:"command"`
	Time    time.Time `json:"time"`
}

// Target is a bound on a value.
type Target struct {
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
}

// Point is one shape of a sweep.
type Point struct {
	Shape string  `json:"shape"`
	Value float64 `json:"value"`
}

// UpTo returns an upper bound.
func UpTo(v float64) *Target { return &Target{AtMost: &v} }

// AtLeast returns a lower bound.
func AtLeast(v float64) *Target { return &Target{AtLeast: &v} }

// Met reports whether v is within the bound.
func (t *Target) Met(v float64) bool {
	return (t.AtLeast == nil || v >= *t.AtLeast) && (t.AtMost == nil || v <= *t.AtMost)
}

// String returns, for example, "≤ 300".
func (t *Target) String() string {
	if t.AtLeast != nil {
		return fmt.Sprintf("≥ %g", *t.AtLeast)
	}
	return fmt.Sprintf("≤ %g", *t.AtMost)
}

// Report prints figures as they arrive and stores them for the file.
type Report struct {
	common  Figure
	targets bool // the devices are GPUs
	figures []Figure
}

// New begins the report of a measurement with the given number of ranks on devices like dev. If targets is false, the
// targets of figures are left out.
func New(ctx context.Context, ranks int, dev device.Device, targets bool) *Report {
	machine := fmt.Sprintf("%d × %s", ranks, dev.Name())
	if m, err := topo.Detect(ctx); err == nil {
		if m.Driver != "" {
			machine += ", driver " + m.Driver
		}
		machine += fmt.Sprintf(", %d processors", m.CPU.Threads)
		if m.CPU.Model != "" {
			machine += " (" + strings.TrimSpace(m.CPU.Model) + ")"
		}
	}
	p := &Report{targets: targets, common: Figure{Ranks: ranks, Commit: buildinfo.Read().Commit, Machine: machine,
		Command: append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...),
		Time:    time.Now().UTC().Truncate(time.Second)}}
	fmt.Printf("# %s\n# %-36s %12s %-5s %-10s\n", machine, "figure", "value", "", "target")
	return p
}

// Add completes and prints a figure.
func (p *Report) Add(f Figure) {
	f.Ranks, f.Commit, f.Machine, f.Command, f.Time = p.common.Ranks, p.common.Commit, p.common.Machine, p.common.Command,
		p.common.Time
	bound, verdict := "", ""
	if !p.targets {
		f.Target = nil
	}
	if f.Target != nil {
		met := f.Target.Met(f.Value)
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

// Write stores the figures as a JSON array at path, atomically.
func (p *Report) Write(path string) (err error) {
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
