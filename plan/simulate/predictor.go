package simulate

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
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func inTurn(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}
