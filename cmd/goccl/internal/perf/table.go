package perf

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/setting"
)

// Table prints rows as nccl-tests does, one line per size, as they arrive. With several libraries, the columns of the
// others follow the first library's columns, with the ratio of their time to the first's. It implements Reporter.
type Table struct {
	w         io.Writer
	progress  *Progress // may be nil
	libraries []string
	forms     []string
	head      bool
	err       error
}

// NewTable returns a table that prints to w. progress may be nil. cfg is the configuration of the measurement.
func NewTable(w io.Writer, progress *Progress, libraries []string, cfg Config) *Table {
	t := &Table{w: w, progress: progress, libraries: libraries}
	if cfg.OutOfPlace || !cfg.InPlace {
		t.forms = append(t.forms, "out-of-place")
	}
	if cfg.InPlace || !cfg.OutOfPlace {
		t.forms = append(t.forms, "in-place")
	}
	return t
}

func (t *Table) Err() error { return t.err }

func (t *Table) Progress(what string) {
	t.progress.Show(what)
}

func (t *Table) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

const groupWidth = 38 // "%10s %8s %8s %7s" and a gap

func (t *Table) header() {
	line := func(a, b string) { t.printf("%s\n", strings.TrimRight(a+b, " ")) }
	lead := "# " + strings.Repeat(" ", 49)
	var names string
	for _, f := range t.forms {
		for _, lib := range t.libraries {
			label := f
			if len(t.libraries) > 1 {
				label = f + ": " + lib
			}
			left := max(0, (groupWidth-len(label))/2)
			names += fmt.Sprintf("%-*s", groupWidth, strings.Repeat(" ", left)+label)
		}
	}
	line(lead, names)
	a := fmt.Sprintf("# %11s %13s %9s %7s %5s", "size", "count", "type", "redop", "root")
	b := fmt.Sprintf("# %11s %13s %9s %7s %5s", "(B)", "(elements)", "", "", "")
	for range t.forms {
		for i := range t.libraries {
			if i == 0 {
				a += fmt.Sprintf("  %10s %8s %8s %7s", "time", "algbw", "busbw", "#wrong")
				b += fmt.Sprintf("  %10s %8s %8s %7s", "(us)", "(GB/s)", "(GB/s)", "")
			} else {
				a += fmt.Sprintf("  %10s %8s %8s %7s", "time", "busbw", "#wrong", "ratio")
				b += fmt.Sprintf("  %10s %8s %8s %7s", "(us)", "(GB/s)", "", "")
			}
		}
	}
	for range len(t.forms) * len(t.libraries) {
		a += fmt.Sprintf(" %6s", "SMs")
	}
	line(a, "")
	line(b, "")
}

// Dropped says which sizes have no line.
func (t *Table) Dropped(sizes []int64) {
	if len(sizes) > 0 {
		_, _ = fmt.Fprintf(t.w, "# not measured: %s bytes, which round to 0 elements or to the size before\n",
			strings.Trim(strings.ReplaceAll(fmt.Sprint(sizes), " ", ", "), "[]"))
	}
}

func (t *Table) Point(rows []Row) {
	t.progress.Clear()
	if !t.head {
		t.head = true
		t.header()
	}
	first := rows[0]
	b := &strings.Builder{}
	fmt.Fprintf(b, "  %11d %13d %9s %7s %5d", first.Size, first.Count, first.Type, first.Op, first.Root)
	for f := range t.forms {
		for i := range t.libraries {
			k := f*len(t.libraries) + i
			switch {
			case k >= len(rows): // no in-place form
				fmt.Fprintf(b, "  %10s %8s %8s %7s", "N/A", "N/A", "N/A", "N/A")
			case i == 0:
				r := rows[k]
				fmt.Fprintf(b, "  %10s %8s %8s %7s", r.timeText(), r.rate(r.AlgBW), r.rate(r.BusBW), r.wrongText())
			default:
				r := rows[k]
				fmt.Fprintf(b, "  %10s %8s %8s %7s", r.timeText(), r.rate(r.BusBW), r.wrongText(), r.rate(r.Ratio))
			}
		}
	}
	for k := range len(t.forms) * len(t.libraries) {
		text := "N/A"
		if k < len(rows) {
			text = rows[k].smsText()
		}
		fmt.Fprintf(b, " %6s", text)
	}
	t.printf("%s\n", b)
	for _, r := range rows {
		if r.Refused != "" {
			t.printf("# refused: %s, %d bytes: %s\n", r.Library, r.Size, r.Refused)
		}
	}
}

func (r *Row) timeText() string {
	switch {
	case r.Refused != "":
		return "refused"
	case r.Time < 100:
		return fmt.Sprintf("%.2f", r.Time)
	case r.Time < 10000:
		return fmt.Sprintf("%.1f", r.Time)
	}
	return fmt.Sprintf("%.0f", r.Time)
}

// smsText is the number of SMs, CE for copy engines whose barriers take one block, both, or - if that is not known.
func (r *Row) smsText() string {
	switch {
	case r.Copies && r.Blocks > 1:
		return fmt.Sprintf("%d+CE", r.SMs)
	case r.Copies:
		return "CE"
	case r.Blocks > 0:
		return fmt.Sprint(r.SMs)
	}
	return "-"
}

func (r *Row) rate(v float64) string {
	if r.Refused != "" {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func (r *Row) wrongText() string {
	if r.Wrong < 0 {
		return "N/A"
	}
	return fmt.Sprint(r.Wrong)
}

// Summary summarizes a whole measurement.
type Summary struct {
	// AvgBusBW is the mean over the first library's rows, GB/s.
	AvgBusBW float64 `json:"avg_busbw_GBps"`
	Wrong    int64   `json:"wrong"`
	Stray    int64   `json:"stray"`
	Refused  int     `json:"refused"`
	Checked  bool    `json:"checked"`
	// MeanRatio is the geometric mean of the time ratios of each further library: above 1, the first library is faster.
	MeanRatio map[string]float64 `json:"mean_time_ratio,omitempty"`
}

// OK reports whether no element was wrong, no byte was out of bounds and no row was refused.
func (s *Summary) OK() bool { return s.Wrong == 0 && s.Stray == 0 && s.Refused == 0 }

// Summarize summarizes rows. The first row's library is the first library.
func Summarize(rows []Row) Summary {
	s := Summary{Checked: len(rows) > 0, MeanRatio: map[string]float64{}}
	logs, counts := map[string]float64{}, map[string]int{}
	measured := 0
	for _, r := range rows {
		if r.Wrong < 0 {
			s.Checked = false
		} else {
			s.Wrong += r.Wrong
		}
		s.Stray += r.Stray
		if r.Refused != "" {
			s.Refused++
			continue
		}
		if r.Library == rows[0].Library {
			s.AvgBusBW += r.BusBW
			measured++
		}
		if r.Ratio > 0 {
			logs[r.Library] += math.Log(r.Ratio)
			counts[r.Library]++
		}
	}
	if measured > 0 {
		s.AvgBusBW /= float64(measured)
	}
	for lib, l := range logs {
		s.MeanRatio[lib] = math.Exp(l / float64(counts[lib]))
	}
	return s
}

func (t *Table) Footer(s Summary) {
	t.progress.Clear()
	verdict := func(n int64) string {
		if n == 0 {
			return "OK"
		}
		return "FAILED"
	}
	if s.Checked {
		t.printf("# Wrong elements       : %d %s\n", s.Wrong, verdict(s.Wrong))
		t.printf("# Out of bounds values : %d %s\n", s.Stray, verdict(s.Stray))
	} else {
		t.printf("# Wrong elements       : not checked\n")
	}
	if s.Refused > 0 {
		t.printf("# Refused figures      : %d FAILED\n", s.Refused)
	}
	t.printf("# Avg bus bandwidth    : %.4g GB/s\n", s.AvgBusBW)
	for _, lib := range t.libraries[1:] {
		if r, ok := s.MeanRatio[lib]; ok {
			t.printf("# Mean time ratio      : %.3f (%s / %s; above 1, %[3]s is faster)\n", r, lib, t.libraries[0])
		}
	}
}

// Progress is one line on a terminal that is overwritten at most ten times a second. A nil one prints nothing.
type Progress struct {
	f     *os.File
	width int
	last  time.Time
	shown bool
}

// NewProgress shows progress on f; it is nil when f is not a terminal.
func NewProgress(f *os.File) *Progress {
	if f == nil || setting.Lenient().NoProgress {
		return nil
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return nil
	}
	width := int(size.Col)
	if width == 0 { // the terminal does not report it
		width = 80
	}
	return &Progress{f: f, width: max(width, 20)}
}

func (p *Progress) Show(what string) {
	now := time.Now()
	if p == nil || now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last, p.shown = now, true
	if len(what) > p.width-3 {
		what = what[:p.width-3]
	}
	fmt.Fprintf(p.f, "\r\x1b[K%s …", what)
}

// Clear removes the line, before something else is printed.
func (p *Progress) Clear() {
	if p != nil && p.shown {
		p.shown = false
		fmt.Fprint(p.f, "\r\x1b[K")
	}
}
