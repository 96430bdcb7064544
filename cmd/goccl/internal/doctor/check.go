package doctor

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccl/goccl/cmd/goccl/internal/links"
	"github.com/goccl/goccl/internal/driver/nvml"
	"github.com/goccl/goccl/job/topo"
)

// Source provides the facts that Check examines. Any field may be nil: its findings are then left out.
type Source struct {
	// Environment returns the environment of the process, like setting.Environ.
	Environment func() []string
	// Driver loads the driver and returns the CUDA version that it supports, or the reason why it does not work.
	Driver func() (cuda int, err error)
	// Hardware reports whether an NVIDIA GPU is installed, independently of the driver.
	Hardware func() bool
	Machine  func(context.Context) (*topo.Machine, error)
	// Visible returns the number of GPUs that this process may use.
	Visible func() (int, error)
	// PeerAccess reports whether visible GPU a can access visible GPU b.
	PeerAccess func(a, b int) (bool, error)
	// Links measures every pair of n visible GPUs.
	Links func(ctx context.Context, n int) ([]links.Verdict, error)
	// NICs measures every network adapter.
	NICs func(context.Context) []links.NIC
	// Health reads the state of the GPUs.
	Health func() ([]nvml.Health, error)
	// Isolation looks at what keeps processes and devices apart.
	Isolation func(*topo.Machine) Isolation
	// Plugin opens the plugin of the network, if there is one, and describes it; ok is false if there is none.
	Plugin func() (text string, ok bool, err error)
	// Share tries to allocate and to export memory of visible GPU 0, as VMM and as legacy IPC.
	Share func(context.Context) (vmm, legacy error)
	// Limit returns the soft limit of the process: "nofile", "memlock" (bytes); Unlimited if there is none.
	Limit func(name string) (uint64, error)
	// Shm returns the size of /dev/shm in bytes.
	Shm func() (uint64, error)
	// MemoryLimit returns the memory cgroup's limit in bytes, Unlimited if there is none.
	MemoryLimit func() (uint64, error)
	// CPUs returns the number of processors on which the process may run.
	CPUs func() int
}

// Unlimited is the value for no limit.
const Unlimited = ^uint64(0)

func Check(ctx context.Context) []Finding { return Host().Check(ctx) }

// Check examines s. Queries that may hang (a broken driver) are abandoned when ctx ends, and reported as failed.
func (s Source) Check(ctx context.Context) []Finding {
	r := new(report)
	ok := s.driver(ctx, r)
	m := s.gpus(ctx, r, ok)
	if ok {
		s.sharing(ctx, r)
	}
	s.health(ctx, r)
	s.limits(r, m)
	s.isolation(r, m)
	s.network(r, m)
	s.distances(r, m)
	s.adapters(ctx, r)
	s.plugin(ctx, r)
	s.environment(r, m)
	return r.findings
}

// Status grades a finding.
type Status string

// The grades: Warn means slower or smaller than possible, Fail means not working.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is one line of the report. Fix is empty when Status is OK.
type Finding struct {
	Area   string `json:"area"` // "driver", "gpu", "sharing", "health", "limits", "isolation", "network", "environment"
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// Worst returns the most severe status of a report; OK for an empty one.
func Worst(fs []Finding) Status {
	for _, s := range []Status{Fail, Warn} {
		if slices.ContainsFunc(fs, func(f Finding) bool { return f.Status == s }) {
			return s
		}
	}
	return OK
}

// shades are the colours of grades in a terminal.
var shades = map[Status]string{Warn: "\x1b[33m", Fail: "\x1b[1;31m"}

// Write prints a report as text, grouped by area, each fix under its finding. color uses the terminal's colours.
func Write(w io.Writer, fs []Finding, color bool) error {
	width := 0
	for _, f := range fs {
		width = max(width, len(f.Name))
	}
	var b strings.Builder
	area := ""
	for _, f := range fs {
		if f.Area != area {
			area = f.Area
			b.WriteString(area + "\n")
		}
		grade := fmt.Sprintf("%-4s", f.Status)
		if shade := shades[f.Status]; color && shade != "" {
			grade = shade + grade + "\x1b[0m"
		}
		fmt.Fprintf(&b, "  %s  %-*s  %s\n", grade, width, f.Name, f.Detail)
		if f.Fix != "" {
			fmt.Fprintf(&b, "  %-4s  %-*s  → %s\n", "", width, "", f.Fix)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// report collects findings, of one area after the other.
type report struct {
	area     string
	findings []Finding
}

func (r *report) add(status Status, name, fix, format string, v ...any) {
	r.findings = append(r.findings, Finding{r.area, name, status, fmt.Sprintf(format, v...), fix})
}

func (r *report) ok(name, format string, v ...any) { r.add(OK, name, "", format, v...) }

func (r *report) warn(name, fix, format string, v ...any) { r.add(Warn, name, fix, format, v...) }

func (r *report) fail(name, fix, format string, v ...any) { r.add(Fail, name, fix, format, v...) }
