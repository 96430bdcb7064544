package observe

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/watch/record"
)

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
		} else {
			for _, v := range s.Verdicts {
				for _, k := range v.Blamed() {
					if v.Communicator == c.ID && v.Hang() && c.Ranks[n-1].Rank == k {
						shade = red
					}
				}
			}
		}
		if shade != "" {
			text = paint(color, shade, text)
		}
		b.WriteString("  " + text + "\n")
	}
}
