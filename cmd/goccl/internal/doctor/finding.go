package doctor

import (
	"fmt"
	"io"
	"strings"
)

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
	worst := OK
	for _, f := range fs {
		if f.Status == Fail {
			return Fail
		}
		if f.Status == Warn {
			worst = Warn
		}
	}
	return worst
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
