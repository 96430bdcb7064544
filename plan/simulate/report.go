package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

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
		label := row.Label
		if label == "" {
			label = row.Plan.Name
		}
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
