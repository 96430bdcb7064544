package plan

import "testing"

// WithOp adds a row to the table of ops for the time of a test.
func WithOp(t *testing.T, k OpKind) {
	t.Helper()
	if k.Name.Kind() != nil {
		t.Fatalf("there is an op %q already", k.Name)
	}
	old := opKinds
	opKinds = append(old[:len(old):len(old)], k)
	kindOf = indexKinds()
	t.Cleanup(func() { opKinds = old; kindOf = indexKinds() })
}

// FewSteps bounds examinations in which many plans are compared.
const FewSteps = 20_000

// CheckEvery is Check with all combinations of numbers of iterations of consecutive launches.
func CheckEvery(p *Plan) error {
	_, err := Check(p, VerifyOptions{MaxSteps: FewSteps, every: true})
	return err
}
