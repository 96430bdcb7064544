package simulate_test

import (
	"bytes"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goccl/goccl/plan/simulate"
)

// fit says where a fitted machine is kept and how it is made.
type fit struct {
	file, start string
	name        string // of the machine; empty: the name of the start
	source      string
}

// fittedMachine reads the machine that was fitted to rows. With GOCCL_FULL it fits again and compares, with
// GOCCL_UPDATE_GOLDEN it fits again and writes the file.
func fittedMachine(t *testing.T, f fit, rows []simulate.Measurement) *simulate.Machine {
	t.Helper()
	update := os.Getenv("GOCCL_UPDATE_GOLDEN") != ""
	if update || os.Getenv("GOCCL_FULL") != "" {
		r, err := simulate.Fit(readMachine(t, f.start), rows, simulate.FitOptions{Each: atOnce})
		if err != nil {
			t.Fatal(err)
		}
		r.Machine.Source = f.source
		if f.name != "" {
			r.Machine.Name = f.name
		}
		golden(t, f.file, r.Machine.JSON())
	}
	return readMachine(t, f.file)
}

// atOnce is for FitOptions.Each.
func atOnce(n int, f func(i int)) {
	var next atomic.Int64
	var done sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	done.Wait()
}

func readMachine(t testing.TB, file string) *simulate.Machine {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := simulate.ParseMachine(data)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// golden compares got with a file, or writes the file with GOCCL_UPDATE_GOLDEN. On other architectures floating-point
// operations are contracted, so a last digit may differ.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if os.Getenv("GOCCL_UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || runtime.GOARCH == "amd64" && !bytes.Equal(want, got) {
		t.Errorf("%s is not what the model says now (%v); run with GOCCL_UPDATE_GOLDEN=1 and look at the change\n%s", file,
			err, got)
	}
}
