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
	// Step is the step of the clock, in µs of one launch: the launch took at most Micros, and at least that less Step.
	Step  float64
	Label string // for reports
}

// off returns how far a predicted time is from the measured one, as the logarithm of their ratio: 0 where the clock
// cannot tell them apart.
func (r *Measurement) off(predicted float64) float64 {
	switch least := max(r.Micros-r.Step, 0); {
	case predicted > r.Micros:
		return math.Log(predicted / r.Micros)
	case predicted < least:
		return math.Log(predicted / least)
	}
	return 0
}

// FitOptions configures a fit.
type FitOptions struct {
	// Parameters are the names of the parameters to adjust, see Machine.Parameters; nil: those that change at least one
	// prediction.
	Parameters []string
	Rounds     int     // maximum; 0: 60
	Prior      float64 // weight of staying near the start, in measurements per parameter; 0: 0.1
	// Each calls f for 0 … n − 1, several at once if it likes, and returns when all have returned; nil: one after
	// another.
	Each func(n int, f func(i int))
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
// The method is Levenberg-Marquardt on the logarithms of the parameters with a numerical Jacobian. Between two
// evaluations, each step updates the Jacobian by Broyden's method. A step is taken only when it lowers the error, so
// the result is never worse than the start.
func Fit(m *Machine, rows []Measurement, opts FitOptions) (*Fitted, error) {
	if len(rows) == 0 {
		return nil, fmt.Errorf("simulate: fit: no measurements")
	}
	for _, r := range rows {
		if !(r.Micros > 0) || math.IsInf(r.Micros, 0) || !(r.Step >= 0) {
			return nil, fmt.Errorf("simulate: fit: measurement %q: %g us, by a clock with steps of %g", r.Label, r.Micros,
				r.Step)
		}
	}
	opts.Rounds = cmp.Or(opts.Rounds, 60)
	opts.Prior = cmp.Or(opts.Prior, 0.1)
	p, err := newPredictor(m, rows, opts.Each)
	if err != nil {
		return nil, err
	}
	f := &fitter{predictor: p, rows: rows, start: *m, opts: opts}
	before, err := p.predict(m)
	if err != nil {
		return nil, err
	}
	out := &Fitted{Before: newReport(rows, before[0])}
	if f.names, err = f.parameters(before[0]); err != nil {
		return nil, err
	}
	x, rounds, err := f.solve()
	if err != nil {
		return nil, err
	}
	out.Machine, out.Parameters, out.Rounds = f.at(x), f.names, rounds
	for i := range rows {
		out.Machine.Rail.Measured = out.Machine.Rail.Measured || m.spans(len(rows[i].Plan.GPUs))
	}
	after, err := p.predict(out.Machine)
	if err != nil {
		return nil, err
	}
	out.After = newReport(rows, after[0])
	return out, nil
}

type fitter struct {
	*predictor
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

// residuals returns, for each point, the logarithms of predicted over measured time, then the pulls towards the start.
func (f *fitter) residuals(points ...[]float64) ([][]float64, error) {
	machines := make([]*Machine, len(points))
	for k, x := range points {
		machines[k] = f.at(x)
	}
	out, err := f.predict(machines...)
	w := math.Sqrt(f.opts.Prior)
	for k, x := range points {
		for i := range f.rows {
			out[k][i] = tamed(f.rows[i].off(out[k][i]))
		}
		for _, v := range x {
			out[k] = append(out[k], w*v)
		}
	}
	return out, err
}

// tamed returns the signed root of the Huber loss: beyond 10 % the loss is linear, so outliers do not dominate the fit.
func tamed(off float64) float64 {
	const near = 0.1
	if math.Abs(off) <= near {
		return off
	}
	return math.Copysign(math.Sqrt(2*near*math.Abs(off)-near*near), off)
}

// parameters returns the names to fit; base are the predictions of the start. A parameter that is zero cannot be
// scaled and stays zero.
func (f *fitter) parameters(base []float64) ([]string, error) {
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
	var out []string
	for _, n := range f.start.Parameters() {
		if v, err := f.start.Get(n); err != nil || v == 0 {
			continue
		}
		g := *f
		g.names = []string{n}
		moved, err := f.predict(g.at([]float64{-0.2}), g.at([]float64{0.2}))
		if err != nil {
			return nil, err
		}
		if differ(base, moved[0]) || differ(base, moved[1]) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("simulate: fit: no parameter changes any prediction")
	}
	return out, nil
}

func differ(a, b []float64) bool {
	return !slices.EqualFunc(a, b, func(x, y float64) bool { return math.Abs(x-y) <= 1e-6*x })
}

// jacobian returns the derivatives of the residuals res at x, by parameter.
func (f *fitter) jacobian(x, res []float64) ([][]float64, error) {
	const h = 0.02
	points := make([][]float64, len(x))
	for j := range points {
		points[j] = slices.Clone(x)
		points[j][j] += h
	}
	jac, err := f.residuals(points...)
	for _, column := range jac {
		for i := range column {
			column[i] = (column[i] - res[i]) / h
		}
	}
	return jac, err
}

func (f *fitter) solve() ([]float64, int, error) {
	x := make([]float64, len(f.names))
	first, err := f.residuals(x)
	if err != nil {
		return nil, 0, err
	}
	res := first[0]
	jac, err := f.jacobian(x, res)
	if err != nil {
		return nil, 0, err
	}
	best, damp, fresh := sumSquares(res), 1e-2, true
	for round := range f.opts.Rounds {
		step, y := solveNormal(jac, res, damp), slices.Clone(x)
		for j := range step {
			step[j] = max(-0.7, min(0.7, step[j]))
			y[j] += step[j]
		}
		next, err := f.residuals(y)
		if err != nil {
			return nil, 0, err
		}
		correct(jac, step, res, next[0])
		gain := best - sumSquares(next[0])
		if gain > 0 {
			x, res, best, damp = y, next[0], best-gain, damp/4
		} else {
			damp *= 4
		}
		switch done := gain < 1e-4*best; {
		case done && fresh && (gain > 0 || damp > 1e3):
			return x, round + 1, nil
		case done && !fresh:
			if jac, err = f.jacobian(x, res); err != nil {
				return nil, 0, err
			}
			fresh, damp = true, min(damp, 1)
		case gain > 0:
			fresh = false
		}
	}
	return x, f.opts.Rounds, nil
}

// predictor predicts the times of measurements on machines that differ in parameters of time only. Each plan and size
// is resolved once.
type predictor struct {
	models []*model
	each   func(n int, f func(i int))
}

// newPredictor resolves all measurements. each is FitOptions.Each.
func newPredictor(m *Machine, rows []Measurement, each func(n int, f func(i int))) (*predictor, error) {
	p := &predictor{models: make([]*model, len(rows)), each: each}
	if each == nil {
		p.each = inTurn
	}
	err := p.all(len(rows), func(i int) (err error) {
		p.models[i], err = load(rows[i].Plan, nil, m, rows[i].Size)
		return err
	})
	return p, err
}

// predict returns the times of all measurements, for each of the machines, in µs.
func (p *predictor) predict(machines ...*Machine) ([][]float64, error) {
	n := len(p.models)
	out := make([][]float64, len(machines))
	for k := range out {
		out[k] = make([]float64, n)
	}
	return out, p.all(len(machines)*n, func(i int) error {
		r := newRunner(p.models[i%n].on(machines[i/n]))
		r.run()
		if err := r.hang(); err != nil {
			return err
		}
		out[i/n][i%n] = r.micros()
		return nil
	})
}

// all calls f for 0 … n − 1 and returns the first error by number.
func (p *predictor) all(n int, f func(i int) error) error {
	errs := make([]error, n)
	p.each(n, func(i int) { errs[i] = f(i) })
	return cmp.Or(errs...)
}

func inTurn(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

func sumSquares(v []float64) float64 { return dot(v, v) }

// correct changes a Jacobian, by column, as little as lets it say what a step from residuals before to after showed.
func correct(jac [][]float64, step, before, after []float64) {
	length := sumSquares(step)
	if length == 0 {
		return
	}
	for k := range before {
		missed := after[k] - before[k]
		for j := range step {
			missed -= jac[j][k] * step[j]
		}
		for j := range step {
			jac[j][k] += missed * step[j] / length
		}
	}
}

// solveNormal solves (JᵀJ + damp·diag) step = -Jᵀr; jac is by column. The matrix is symmetric and positive, so
// elimination (Gauss-Jordan) needs no pivoting.
func solveNormal(jac [][]float64, r []float64, damp float64) []float64 {
	n := len(jac)
	a := make([][]float64, n) // the right side is the last column
	for i := range a {
		a[i] = make([]float64, n+1)
		for j := range n {
			a[i][j] = dot(jac[i], jac[j])
		}
		a[i][i] += damp*a[i][i] + 1e-9
		a[i][n] = -dot(jac[i], r)
	}
	for c := range n {
		for i := range n {
			if f := a[i][c] / a[c][c]; i != c {
				for j := c; j <= n; j++ {
					a[i][j] -= f * a[c][j]
				}
			}
		}
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = a[i][n] / a[i][i]
	}
	return x
}

func dot(a, b []float64) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}
