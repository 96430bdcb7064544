package verify

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/goccl/goccl/plan"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestScripts loads and verifies the plan in every testdata/verify/*.txtar and compares the outcome with the file
// "want" beside it.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := outcome(ar.Files[0].Data)
			if *update {
				ar.Files = append(ar.Files[:1], txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(ar.Files[1].Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// outcome returns the result of loading and verifying a plan as text.
func outcome(data []byte) string {
	p, warnings, err := plan.DecodeWithWarnings(data, &plan.Capacity)
	out := ""
	for _, w := range warnings {
		out += fmt.Sprintln("warning:", w)
	}
	if err != nil {
		return out + err.Error() + "\n"
	}
	r, err := Check(p, Options{})
	if err != nil {
		return out + err.Error() + "\n"
	}
	return out + fmt.Sprintf("right: launches %d, atoms %d, even messages only %v\n", r.Launches, r.Shapes, r.EvenOnly)
}
