package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl/internal/buildinfo"
)

// Result is what a run found, and how.
type Result struct {
	Commit  string    `json:"commit"`
	Command []string  `json:"command"`
	Machine string    `json:"machine"`
	Seed    uint64    `json:"seed"`
	Ranks   int       `json:"ranks"`
	Device  string    `json:"device"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Slow    float64   `json:"slow"` // the limits of times were multiplied by it
	OK      bool      `json:"ok"`   // there are no failures
	// Unjudged is what the trials did not look at: see Options.
	Unjudged string `json:"unjudged,omitempty"`
	// Failures say which cells were not handled or, although they were asked for, not tried.
	Failures []string `json:"failures"`
	Cells    []*Cell  `json:"cells"`
}

// Cell is one fault in one phase.
type Cell struct {
	Fault    string         `json:"fault"`
	Phase    string         `json:"phase"`
	Trials   int            `json:"trials"`
	Untried  string         `json:"untried,omitempty"` // why there are no trials
	Outcomes map[string]int `json:"outcomes"`
	// Of the trials in which there is such a time, in ms.
	Named  []float64 `json:"named_ms,omitempty"`
	Shrunk []float64 `json:"shrunk_ms,omitempty"`
	Right  int       `json:"verdicts_right,omitempty"` // survivors' verdicts of the fault's kind and rank
	Judged int       `json:"verdicts,omitempty"`
	// Misjudged are the first few errors with a wrong verdict.
	Misjudged []string `json:"misjudged,omitempty"`
	// Spent is where the time of all trials went, in s; see stretches.
	Spent    map[string]float64 `json:"spent_s,omitempty"`
	Problems []Problem          `json:"problems,omitempty"` // the first few trials that were not handled
}

// Problem is a trial to run again.
type Problem struct {
	Number  int    `json:"number"`
	Seed    uint64 `json:"seed"`
	Outcome string `json:"outcome"`
	Text    string `json:"text"`
}

const mostProblems = 5

func newResult(o Options) *Result {
	build := buildinfo.Read()
	if build.Commit == "unknown" { // a linker's flag says it
		build.Commit = build.Version
	}
	return &Result{Commit: build.Commit,
		Machine: fmt.Sprintf("%d cores, %s", runtime.NumCPU(), runtime.Version()),
		Device:  map[bool]string{false: "host", true: "cuda"}[o.CUDA],
		Seed:    o.Seed, Ranks: o.Ranks, Slow: o.Slow, Unjudged: o.Unjudged(), Began: time.Now().UTC().Truncate(time.Second)}
}

func (c *Cell) add(number int, t Trial, v Verdict) {
	c.Trials++
	c.Outcomes[v.Outcome]++
	millis := func(d time.Duration) float64 { return math.Round(float64(d)/1e4) / 100 }
	c.Right, c.Judged = c.Right+v.Right, c.Judged+v.Judged
	if v.Named > 0 {
		c.Named = append(c.Named, millis(v.Named))
	}
	if v.Shrunk > 0 {
		c.Shrunk = append(c.Shrunk, millis(v.Shrunk))
	}
	c.Misjudged = append(c.Misjudged, v.Misjudged...)
	c.Misjudged = c.Misjudged[:min(len(c.Misjudged), mostProblems)]
	if c.Spent == nil {
		c.Spent = map[string]float64{}
	}
	for name, d := range v.Spent {
		c.Spent[name] = math.Round(1e3*(c.Spent[name]+d.Seconds())) / 1e3
	}
	if v.Outcome != Handled && len(c.Problems) < mostProblems {
		c.Problems = append(c.Problems, Problem{number, t.Seed, v.Outcome, v.Text})
	}
}

// Handled is the number of trials that were.
func (c *Cell) Handled() int { return c.Outcomes[Handled] }

// Quantile returns a quantile of times, 0 if there are none.
func Quantile(times []float64, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// String is the cell as a line.
func (c *Cell) String() string {
	var b strings.Builder
	if c.Trials == 0 {
		return fmt.Sprintf("%-18s %-8s untried: %s", c.Fault, c.Phase, c.Untried)
	}
	fmt.Fprintf(&b, "%-18s %-8s %d of %d handled", c.Fault, c.Phase, c.Handled(), c.Trials)
	for _, times := range []struct {
		name string
		ms   []float64
	}{{"named", c.Named}, {"shrunk", c.Shrunk}} {
		if len(times.ms) > 0 {
			fmt.Fprintf(&b, ", %s after %.1f ms (p99 %.1f)", times.name, Quantile(times.ms, 0.5), Quantile(times.ms, 0.99))
		}
	}
	if c.Judged > 0 {
		fmt.Fprintf(&b, ", verdicts %d of %d", c.Right, c.Judged)
	}
	for _, p := range c.Problems {
		line, _, _ := strings.Cut(p.Text, "\n")
		fmt.Fprintf(&b, "\n  trial %d: %s: %s", p.Number, p.Outcome, line)
	}
	return b.String()
}

// Encode is the result in JSON with a cell on each line.
func (r *Result) Encode() ([]byte, error) {
	head := *r
	head.Cells = nil
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(text, []byte("null}")))
	b.WriteString("[\n")
	for i, c := range r.Cells {
		line, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		if b.Write(line); i < len(r.Cells)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]}\n")
	return b.Bytes(), nil
}

// judge says why the run is no success: a cell was not handled, was asked for and not tried, or there were no trials.
func (r *Result) judge(asked func(*Cell) bool) {
	r.Failures = []string{}
	for _, c := range r.Cells {
		switch {
		case c.Trials > c.Handled():
			r.Failures = append(r.Failures, fmt.Sprintf("%s in %s: %d of %d trials handled", c.Fault, c.Phase, c.Handled(),
				c.Trials))
		case c.Trials == 0 && asked(c):
			r.Failures = append(r.Failures, fmt.Sprintf("%s in %s: untried: %s", c.Fault, c.Phase, c.Untried))
		}
	}
	if _, all := r.Handled(); all == 0 {
		r.Failures = append(r.Failures, "no trial was run")
	}
	r.OK = len(r.Failures) == 0
}

// Handled returns how many trials were handled, and how many there were.
func (r *Result) Handled() (handled, all int) {
	for _, c := range r.Cells {
		handled, all = handled+c.Handled(), all+c.Trials
	}
	return handled, all
}
