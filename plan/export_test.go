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
