package observe

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
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

// row is a line of the table. old is the same rank in the snapshot before.
func row(r *Rank, c *Communicator, s *Snapshot, old *Rank, before *Snapshot) []string {
	op, size, algo, since := "idle", "", "", ""
	o := r.Current
	if o == nil {
		o = r.Last
	} else {
		op = o.Collective
		since = seconds(r.Since(o, s.Time).Seconds())
		if o.State == record.Enqueued {
			op += " …"
		}
	}
	if o != nil {
		if o != r.Current {
			op = "idle, was " + o.Collective
		}
		if o.Message {
			op += fmt.Sprintf(" ↔ %d", o.Peer)
		}
		size, algo = printable.Bytes(max(0, o.Bytes)), strings.ToLower(strings.Trim(o.Algorithm+" "+o.Protocol, " "))
		if o.Algorithm == o.Protocol {
			algo = strings.ToLower(o.Algorithm)
		}
	}
	rate := ""
	if old != nil && before != nil {
		if dt := s.Time.Sub(before.Time).Seconds(); dt > 0 {
			rate = fmt.Sprintf("%.4g", float64(r.calls()-old.calls())/dt)
		}
	}
	bus := ""
	if gbps := busBandwidth(r, old, c.Size); gbps > 0 {
		bus = fmt.Sprintf("%.3g", gbps)
	}
	late := ""
	if len(c.Ranks) > 1 && r.Record.Collectives > 0 {
		late = fmt.Sprintf("%.3g", r.LateMs)
	}
	waits := ""
	if w := r.Record.Waits; len(w) > 0 {
		waits = fmt.Sprintf("%d: %s", w[0].Peer, w[0].Flag)
	}
	return []string{fmt.Sprint(r.Rank), r.Host, fmt.Sprint(r.PID), r.State, fmt.Sprint(r.calls()), op,
		size, algo, since, rate, bus, late, waits}
}

// Factor is nccl-tests' factor from algorithm to bus bandwidth. It applies to the bytes of the count in the call.
func Factor(collective string, n int) float64 {
	if n < 1 {
		return 0
	}
	k := float64(n)
	switch collective {
	case "all_reduce":
		return 2 * (k - 1) / k
	case "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter": // the count is per rank
		return k - 1
	}
	return 1
}

// busBandwidth is over the operations that have ended since old, or since the start; in GB/s.
func busBandwidth(r, old *Rank, size int) float64 {
	bytes, ns := 0.0, 0.0
	add := func(sums []Sum, sign float64) {
		for i := range sums {
			s := &sums[i]
			bytes += sign * Factor(s.Collective, size) * float64(s.BusyBytes)
			ns += sign * float64(s.BusyNs)
		}
	}
	add(r.Sums, 1)
	if old != nil {
		add(old.Sums, -1)
	}
	if ns <= 0 {
		return 0
	}
	return bytes / ns
}

func seconds(s float64) string {
	switch {
	case s < 0.001:
		return fmt.Sprintf("%.0f µs", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.0f ms", s*1e3)
	}
	return fmt.Sprintf("%.1f s", s)
}

const (
	bold   = "\x1b[1m"
	red    = "\x1b[1;31m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

func paint(color bool, shade, text string) string {
	if !color {
		return text
	}
	return shade + text + plain
}

// grid writes rows in columns; empty columns are left out. Ranks that a verdict names are coloured.
func grid(b *strings.Builder, rows [][]string, color bool, s *Snapshot, c *Communicator) {
	width := make([]int, len(columns))
	for i := range columns {
		for _, r := range rows[1:] {
			if r[i] != "" {
				width[i] = max(width[i], utf8.RuneCountInString(r[i]), len(columns[i]))
			}
		}
	}
	for n, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			if width[i] == 0 {
				continue
			}
			pad := strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(cell)))
			if number := i == 0 || i == 2 || i == 4 || i >= 8 && i <= 11 || i == 6; number {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		text, shade := strings.TrimRight(line.String(), " "), ""
		if n == 0 {
			shade = dim
		} else if slices.ContainsFunc(s.Verdicts, func(v *fault.Verdict) bool {
			return v.Communicator == c.ID && v.Hang() && slices.Contains(v.Blamed(), c.Ranks[n-1].Rank)
		}) {
			shade = red
		}
		if shade != "" {
			text = paint(color, shade, text)
		}
		b.WriteString("  " + text + "\n")
	}
}
