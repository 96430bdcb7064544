package verify

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/mutate"
)

// FuzzVerify: a valid plan of any content is proven, rejected or too large, without a panic and within bounds.
func FuzzVerify(f *testing.F) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	foreign, err2 := filepath.Glob("../testdata/foreign/*.json")
	if err != nil || err2 != nil || len(scripts) == 0 || len(foreign) == 0 {
		f.Fatal(err, err2, len(scripts), len(foreign))
	}
	for _, file := range append(scripts, foreign...) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if filepath.Ext(file) == ".txtar" {
			data = txtar.Parse(data).Files[0].Data
		}
		f.Add(data)
	}
	mutate.Fuzz(f, func(t *testing.T, data []byte) {
		p, err := plan.Decode(data)
		if err != nil {
			return
		}
		_, _ = Check(p, Options{MaxSteps: 1 << 14, MaxCells: 1 << 14})
	})
}
