package verify

import "github.com/goccl/goccl/plan"

// FewSteps bounds examinations in which many plans are compared.
const FewSteps = 20_000

// CheckEvery is Check with all combinations of numbers of iterations of consecutive launches.
func CheckEvery(p *plan.Plan) error {
	_, err := Check(p, Options{MaxSteps: FewSteps, every: true})
	return err
}
