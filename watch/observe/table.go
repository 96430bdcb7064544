package observe

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/watch/judge"
)

// columns of the table; docs/watch.md explains each.
var columns = []string{"RANK", "HOST", "PID", "STATE", "CALLS", "OPERATION", "SIZE", "ALGO", "FOR", "OP/S", "BUSBW",
	"LATE", "WAITS FOR"}

// Table writes a snapshot as text: a table for each communicator, then the verdicts. before is the snapshot before it,
// from which rates come; nil: no rates. color uses the terminal's colours.
func Table(w io.Writer, s, before *Snapshot, color bool) error {
	var b strings.Builder
	ranks := 0
	for _, c := range s.Communicators {
		ranks += len(c.Ranks)
	}
	fmt.Fprintf(&b, "goccl watch  %s  %s  %s, %s\n", s.Host, s.Time.Format(time.TimeOnly),
		printable.Count(len(s.Communicators), "communicator"), printable.Count(ranks, "rank"))
	for _, c := range s.Communicators {
		name := c.ID
		if c.Name != "" {
			name += " " + c.Name
		}
		fmt.Fprintf(&b, "\n%s  %d of %s\n", paint(color, bold, "communicator "+name), len(c.Ranks),
			printable.Count(c.Size, "rank"))
		rows := [][]string{columns}
		for _, r := range c.Ranks {
			rows = append(rows, row(r, c, s, find(before, c, r), before))
		}
		grid(&b, rows, color, s, c)
	}
	if len(s.Communicators) == 0 {
		b.WriteString("\nno communicators: start jobs on NCCL with NCCL_PROFILER_PLUGIN=libgoccl-profiler.so\n")
	}
	if len(s.Verdicts) > 0 {
		b.WriteString("\n")
	}
	for _, v := range s.Verdicts {
		shade := red
		if !v.Hang() {
			shade = yellow
		}
		head := strings.ToUpper(string(v.Kind)) + "  " + who(v)
		fmt.Fprintf(&b, "%s\n%s", paint(color, shade, head), wrap(v.What))
		for _, e := range v.Evidence {
			b.WriteString(paint(color, dim, wrap("· "+e)))
		}
		if len(v.Waiting) > 0 {
			b.WriteString(wrap(fmt.Sprintf("waiting in %s for %.1f s: ranks %s", title(v), v.For.Seconds(),
				judge.List(v.Waiting))))
		}
		b.WriteString(wrap("→ " + v.Mend))
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks a text into indented lines of at most 100 columns.
func wrap(text string) string {
	const prefix = "   "
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
			b.WriteString(prefix)
		case width+1+n > 96:
			b.WriteString("\n" + prefix)
			width = 0
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String() + "\n"
}

// title names the operation of a verdict.
func title(v *fault.Verdict) string { return fmt.Sprintf("%s (#%d)", v.Operation, v.Number) }

// who names the ranks of a verdict.
func who(v *fault.Verdict) string {
	text := ""
	switch ranks := v.Blamed(); len(ranks) {
	case 0:
		text = "no rank"
	case 1:
		text = "rank " + judge.List(ranks)
	default:
		text = "ranks " + judge.List(ranks)
	}
	switch {
	case v.Host != "" && v.Process != 0:
		text += fmt.Sprintf(" (%s, process %d)", v.Host, v.Process)
	case v.Host != "":
		text += fmt.Sprintf(" (%s)", v.Host)
	}
	return text + " of " + v.Communicator
}

func find(s *Snapshot, c *Communicator, r *Rank) *Rank {
	if s == nil {
		return nil
	}
	for _, x := range s.Communicators {
		if x.ID != c.ID || x.Size != c.Size {
			continue
		}
		for _, y := range x.Ranks {
			if y.Rank == r.Rank && y.PID == r.PID && y.Host == r.Host {
				return y
			}
		}
	}
	return nil
}
