package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
)

// Result is a simulated launch.
type Result struct {
	Plan    *plan.Plan
	Machine *Machine
	Size    int64   // message bytes
	Micros  float64 // from the launch to the end of the last rank
	AlgBW   float64 // GB/s, as nccl-tests defines it
	BusBW   float64
	Ports   []PortUse // by rank, then kind; unused ports are left out
	Links   []LinkUse // of the machine's fabric, by edge; unused ones are left out
	Events  int

	spans  []span
	blocks []block
	last   int32 // the span that ends last
}

// PortUse is how long a port of a rank is busy.
type PortUse struct {
	Rank   int
	Port   PortKind
	Micros float64
	Share  float64 // of the launch
}

// Span is one op of one thread block, in one iteration.
type Span struct {
	Rank, Block int
	Pos         plan.Pos
	Op          plan.OpName
	Iteration   int
	Start, End  float64 // µs after the launch
	Woke        float64 // when the last event that it waited for arrived; Start if it did not wait
	Cause       int     // index of the span of another block that unblocked this one, or -1
	Prev        int     // index of the block's previous span, or -1
}

func (r *runner) result(size int64) *Result {
	out := &Result{Plan: r.plan, Machine: r.machine, Size: size, Events: r.events, spans: r.spans, blocks: r.blocks,
		last: none}
	end := r.begin
	for i := range r.spans {
		if r.spans[i].end >= end {
			end, out.last = r.spans[i].end, int32(i)
		}
	}
	out.Micros = r.micros()
	out.AlgBW = float64(size) / out.Micros * 1e-3
	out.BusBW = out.AlgBW * busFactor(r.plan.Collective, len(r.plan.GPUs))
	if r.net.wires != nil {
		out.Links = r.net.wires.linkUse(out.Micros)
	}
	for rank := range r.plan.GPUs {
		for k := range numPorts {
			if p := r.net.ports[rank*int(numPorts)+int(k)]; p.busy > 0 {
				out.Ports = append(out.Ports, PortUse{Rank: rank, Port: k, Micros: p.busy, Share: p.busy / out.Micros})
			}
		}
	}
	return out
}

// micros returns the time of the launch.
func (r *runner) micros() float64 {
	end := r.begin
	for i := range r.spans {
		end = max(end, r.spans[i].end)
	}
	for i := range r.states {
		end = max(end, r.states[i].stores)
	}
	return end + r.machine.Finish
}

// busFactor is the factor from algorithm bandwidth to bus bandwidth, as nccl-tests defines it.
func busFactor(c plan.Collective, ranks int) float64 {
	n := float64(ranks)
	switch c {
	case plan.AllReduce:
		return 2 * (n - 1) / n
	case plan.AllGather, plan.ReduceScatter, plan.AllToAll:
		return (n - 1) / n
	}
	return 1
}

// Len returns the number of spans.
func (r *Result) Len() int { return len(r.spans) }

// Span returns span i, in the order of the ops' starts.
func (r *Result) Span(i int) Span {
	s := &r.spans[i]
	b := &r.blocks[s.block]
	return Span{Rank: int(b.rank), Block: int(b.id), Pos: s.in.pos, Op: s.in.name, Iteration: int(s.iter), Start: s.start,
		End: s.end, Woke: min(s.woke, s.end), Cause: int(s.cause), Prev: int(s.prev)}
}

// CriticalPath returns the spans that determine the end, first to last: the previous span allowed each to begin or
// continue.
func (r *Result) CriticalPath() []Span {
	var out []Span
	for i := range r.critical {
		out = append(out, r.Span(int(i)))
	}
	slices.Reverse(out)
	return out
}

// critical visits the spans of the critical path, last to first.
func (r *Result) critical(yield func(span int32) bool) {
	for i := r.last; i != none && yield(i); {
		if c := r.spans[i].cause; c != none {
			i = c
		} else {
			i = r.spans[i].prev
		}
	}
}

// Busiest returns the n ports that are busy longest.
func (r *Result) Busiest(n int) []PortUse {
	out := slices.Clone(r.Ports)
	slices.SortStableFunc(out, func(a, b PortUse) int { return cmp.Compare(b.Micros, a.Micros) })
	return out[:min(n, len(out))]
}

// Summary returns the result in a few lines.
func (r *Result) Summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d ranks, %d bytes on %s\n", r.Plan.Name, len(r.Plan.GPUs), r.Size, r.Machine.Name)
	fmt.Fprintf(&b, "time %.2f us, algbw %.2f GB/s, busbw %.2f GB/s (%d events)\n", r.Micros, r.AlgBW, r.BusBW, r.Events)
	if r.Machine.spans(len(r.Plan.GPUs)) && !r.Machine.Rail.Measured {
		b.WriteString("between hosts: not measured; the figures of the network are estimates\n")
	}
	for _, p := range r.Busiest(4) {
		fmt.Fprintf(&b, "rank %d %s: busy %.2f us (%.0f %%)\n", p.Rank, p.Port, p.Micros, 100*p.Share)
	}
	return b.String()
}

// Critical returns the critical path as text, one span per line.
func (r *Result) Critical() string {
	var b strings.Builder
	for _, s := range r.CriticalPath() {
		fmt.Fprintf(&b, "%9.2f %9.2f  rank %d block %d  %s\n", s.Start, s.End, s.Rank, s.Block, s.Op)
	}
	return b.String()
}

// Row is one measurement with its prediction.
type Row struct {
	Label             string
	Ranks             int
	Size              int64
	Measured, Predict float64 // µs
	Step              float64 // of the clock, in µs
	Error             float64 // |predicted/measured − 1|; with a clock of steps the least that they allow
}

// Report describes how well a machine predicts measurements.
type Report struct {
	Rows            []Row
	Median, P95     float64 // of Error
	Worst           float64
	MeanLogDeviance float64 // of ln(predicted/measured): the bias; 0 means none
}

// Compare predicts every measurement. Use it with held-out measurements to judge a fit.
func Compare(m *Machine, rows []Measurement) (Report, error) {
	p, err := newPredictor(m, rows, nil)
	if err != nil {
		return Report{}, err
	}
	predicted, err := p.predict(m)
	if err != nil {
		return Report{}, err
	}
	return newReport(rows, predicted[0]), nil
}

func newReport(rows []Measurement, predicted []float64) (out Report) {
	var errs []float64
	for i := range rows {
		row := &rows[i]
		label := cmp.Or(row.Label, row.Plan.Name)
		off := row.off(predicted[i])
		e := math.Abs(math.Expm1(off))
		out.Rows = append(out.Rows, Row{Label: label, Ranks: len(row.Plan.GPUs), Size: row.Size, Measured: row.Micros,
			Step: row.Step, Predict: predicted[i], Error: e})
		out.MeanLogDeviance += off / float64(len(rows))
		errs = append(errs, e)
	}
	slices.Sort(errs)
	if n := len(errs); n > 0 {
		out.Median = (errs[(n-1)/2] + errs[n/2]) / 2
		out.P95 = errs[min(n-1, int(math.Ceil(0.95*float64(n)))-1)]
		out.Worst = errs[n-1]
	}
	return out
}

// String formats the report as a table, worst row first.
func (r Report) String() string {
	rows := slices.Clone(r.Rows)
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(b.Error, a.Error) })
	var b strings.Builder
	fmt.Fprintf(&b, "%d rows: median error %.1f %%, 95th percentile %.1f %%, worst %.1f %%, bias %+.1f %%\n",
		len(rows), 100*r.Median, 100*r.P95, 100*r.Worst, 100*math.Expm1(r.MeanLogDeviance))
	fmt.Fprintf(&b, "%-32s %6s %12s %12s %12s %8s\n", "plan", "ranks", "bytes", "measured us", "predicted us", "error")
	for _, x := range rows {
		fmt.Fprintf(&b, "%-32s %6d %12d %12.2f %12.2f %7.1f%%\n", x.Label, x.Ranks, x.Size, x.Measured, x.Predict,
			100*x.Error)
	}
	return b.String()
}
