package simulate_test

import (
	"errors"
	"testing"

	"github.com/goccl/goccl/plan/simulate"
	"github.com/goccl/goccl/test/mutate"
)

// FuzzMachine: a machine is rejected with ErrMachine, or can be encoded and parsed again.
func FuzzMachine(f *testing.F) {
	m, err := simulate.NamedMachine("h200")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(m.JSON())
	f.Add([]byte(`{"ranks_per_host":1e99}`))
	mutate.Fuzz(f, func(t *testing.T, data []byte) {
		m, err := simulate.ParseMachine(data)
		if err != nil {
			if !errors.Is(err, simulate.ErrMachine) {
				t.Fatalf("%v is of no class", err)
			}
			return
		}
		if again, err := simulate.ParseMachine(m.JSON()); err != nil || *again != *m {
			t.Fatalf("%+v is read as %+v, %v", m, again, err)
		}
	})
}
