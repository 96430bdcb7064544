package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
)

// Measurement is one measured time of a plan.
type Measurement struct {
	Plan   *plan.Plan
	Size   int64   // message bytes, as in Run
	Micros float64 // of one launch
	Label  string  // for reports
}

// FitOptions configures a fit.
type FitOptions struct {
	// Parameters are the names of the parameters to adjust, see Machine.Parameters; nil: those that change at least one
	// prediction.
	Parameters []string
	Rounds     int     // maximum; 0: 30
	Prior      float64 // weight of staying near the start, in measurements per parameter; 0: 0.1
}

// Fitted is the result of a fit.
type Fitted struct {
	Machine    *Machine
	Parameters []string
	Rounds     int
	Before     Report // of the measurements, with the start machine
	After      Report
}

// Fit adjusts the parameters of m to measurements. It minimizes the squares of the logarithm of predicted over measured
// time, so that small and large messages have equal weight. A weak pull towards the start keeps parameters that the
// measurements hardly determine at their start values. m itself is not changed.
//
// The method is Levenberg-Marquardt on the logarithms of the parameters with a numerical Jacobian. A step is taken only
// when it lowers the error, so the result is never worse than the start.
func Fit(m *Machine, rows []Measurement, opts FitOptions) (*Fitted, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("simulate: fit: no measurements")
	}
	for _, r := range rows {
		if !(r.Micros > 0) || math.IsInf(r.Micros, 0) {
			return nil, fmt.Errorf("simulate: fit: measurement %q: %g us", r.Label, r.Micros)
		}
	}
	if opts.Rounds == 0 {
		opts.Rounds = 30
	}
	if opts.Prior == 0 {
		opts.Prior = 0.1
	}
	f := &fitter{rows: rows, start: *m, opts: opts}
	out := &Fitted{}
	var err error
	if out.Before, err = Compare(m, rows); err != nil {
		return nil, err
	}
	if f.names, err = f.parameters(); err != nil {
		return nil, err
	}
	x, rounds, err := f.solve()
	if err != nil {
		return nil, err
	}
	out.Machine, out.Parameters, out.Rounds = f.at(x), f.names, rounds
	if out.After, err = Compare(out.Machine, rows); err != nil {
		return nil, err
	}
	return out, nil
}

type fitter struct {
	rows  []Measurement
	start Machine
	opts  FitOptions
	names []string
}

// at returns the start machine with its parameters scaled by exp(x).
func (f *fitter) at(x []float64) *Machine {
	m := f.start
	for i, name := range f.names {
		v, err := m.Get(name)
		if err != nil {
			panic(err) // names have been checked
		}
		v *= math.Exp(x[i])
		if strings.HasSuffix(name, "_efficiency") {
			v = min(v, 1)
		}
		if err := m.Set(name, v); err != nil {
			panic(err)
		}
	}
	return &m
}

// residuals returns the logarithms of predicted over measured time, then the pulls towards the start.
func (f *fitter) residuals(x []float64) ([]float64, error) {
	m := f.at(x)
	out := make([]float64, 0, len(f.rows)+len(x))
	for _, row := range f.rows {
		r, err := Run(row.Plan, m, row.Size)
		if err != nil {
			return nil, err
		}
		out = append(out, math.Log(r.Micros/row.Micros))
	}
	w := math.Sqrt(f.opts.Prior)
	for _, v := range x {
		out = append(out, w*v)
	}
	return out, nil
}

// parameters returns the names to fit. A parameter that is zero cannot be scaled and stays zero.
func (f *fitter) parameters() ([]string, error) {
	if f.opts.Parameters != nil {
		for _, n := range f.opts.Parameters {
			if v, err := f.start.Get(n); err != nil {
				return nil, err
			} else if v == 0 {
				return nil, fmt.Errorf("simulate: fit: %s is 0 and cannot be scaled; give it a start", n)
			}
		}
		return f.opts.Parameters, nil
	}
	base, err := f.residuals(nil)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range f.start.Parameters() {
		if v, err := f.start.Get(n); err != nil || v == 0 {
			continue
		}
		f.names = []string{n}
		for _, d := range []float64{-0.2, 0.2} {
			r, err := f.residuals([]float64{d})
			if err != nil {
				return nil, err
			}
			if differ(base, r[:len(base)]) {
				out = append(out, n)
				break
			}
		}
	}
	f.names = nil
	if len(out) == 0 {
		return nil, fmt.Errorf("simulate: fit: no parameter changes any prediction")
	}
	return out, nil
}

func differ(a, b []float64) bool {
	for i := range a {
		if math.Abs(a[i]-b[i]) > 1e-6 {
			return true
		}
	}
	return false
}

func (f *fitter) solve() ([]float64, int, error) {
	n := len(f.names)
	x := make([]float64, n)
	res, err := f.residuals(x)
	if err != nil {
		return nil, 0, err
	}
	best, damp := sumSquares(res), 1e-2
	round := 0
	for ; round < f.opts.Rounds; round++ {
		jac := make([][]float64, n) // by parameter
		const h = 0.02
		for j := range n {
			y := slices.Clone(x)
			y[j] += h
			r, err := f.residuals(y)
			if err != nil {
				return nil, 0, err
			}
			for i := range r {
				r[i] = (r[i] - res[i]) / h
			}
			jac[j] = r
		}
		improved := false
		for try := 0; try < 8 && !improved; try++ {
			step := solveNormal(jac, res, damp)
			y := make([]float64, n)
			for j := range y {
				y[j] = x[j] + max(-0.7, min(0.7, step[j]))
			}
			r, err := f.residuals(y)
			if err != nil {
				return nil, 0, err
			}
			if s := sumSquares(r); s < best {
				improved = true
				gain := best - s
				x, res, best, damp = y, r, s, damp/5
				if gain < 1e-5*best {
					return x, round + 1, nil
				}
			} else {
				damp *= 4
			}
		}
		if !improved {
			break
		}
	}
	return x, round, nil
}

func sumSquares(v []float64) (s float64) {
	for _, x := range v {
		s += x * x
	}
	return s
}

// solveNormal solves (JᵀJ + damp·diag) step = -Jᵀr by elimination with pivoting; jac is by column.
func solveNormal(jac [][]float64, r []float64, damp float64) []float64 {
	n := len(jac)
	a := make([][]float64, n)
	for i := range a {
		a[i] = make([]float64, n+1)
		for j := range n {
			for k := range r {
				a[i][j] += jac[i][k] * jac[j][k]
			}
		}
		for k := range r {
			a[i][n] -= jac[i][k] * r[k]
		}
	}
	for i := range a {
		a[i][i] += damp*a[i][i] + 1e-9
	}
	for c := range n {
		p := c
		for i := c + 1; i < n; i++ {
			if math.Abs(a[i][c]) > math.Abs(a[p][c]) {
				p = i
			}
		}
		a[c], a[p] = a[p], a[c]
		for i := c + 1; i < n; i++ {
			f := a[i][c] / a[c][c]
			for j := c; j <= n; j++ {
				a[i][j] -= f * a[c][j]
			}
		}
	}
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = a[i][n]
		for j := i + 1; j < n; j++ {
			x[i] -= a[i][j] * x[j]
		}
		x[i] /= a[i][i]
	}
	return x
}

// Row is one measurement with its prediction.
type Row struct {
	Label             string
	Ranks             int
	Size              int64
	Measured, Predict float64 // µs
	Error             float64 // |predicted/measured − 1|
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
	var out Report
	var errs []float64
	for _, row := range rows {
		r, err := Run(row.Plan, m, row.Size)
		if err != nil {
			return Report{}, err
		}
		label := row.Label
		if label == "" {
			label = row.Plan.Name
		}
		e := math.Abs(r.Micros/row.Micros - 1)
		out.Rows = append(out.Rows, Row{Label: label, Ranks: len(row.Plan.GPUs), Size: row.Size, Measured: row.Micros,
			Predict: r.Micros, Error: e})
		out.MeanLogDeviance += math.Log(r.Micros/row.Micros) / float64(len(rows))
		errs = append(errs, e)
	}
	slices.Sort(errs)
	if n := len(errs); n > 0 {
		out.Median = (errs[(n-1)/2] + errs[n/2]) / 2
		out.P95 = errs[min(n-1, int(math.Ceil(0.95*float64(n)))-1)]
		out.Worst = errs[n-1]
	}
	return out, nil
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
