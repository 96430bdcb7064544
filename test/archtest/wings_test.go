package archtest

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// wings are the folders that a stranger chooses from.
var wings = []string{"bench", "capi", "cmd/goccl", "collective", "device", "engine", "internal", "job", "kernels",
	"plan", "primitive", "test", "tools", "transport", "watch"}

// A README of at most one screen names every folder of its wing, and none that is gone.
func TestWings(t *testing.T) {
	top := root(t)
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, wing := range wings {
		text, err := os.ReadFile(filepath.Join(top, wing, "README.md"))
		if err != nil {
			t.Error(err)
			continue
		}
		if n := strings.Count(string(text), "\n"); n > 45 {
			t.Errorf("%s/README.md: %d lines, one screen has 45", wing, n)
		}
		named := map[string]bool{}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			named[m[1]] = true
			if _, err := os.Stat(filepath.Join(top, wing, m[1])); err != nil {
				t.Errorf("%s/README.md: %v", wing, err)
			}
		}
		folders := []string{"."}
		if named["internal/perf"] {
			folders = []string{"internal"}
		}
		for _, folder := range folders {
			entries, err := os.ReadDir(filepath.Join(top, wing, folder))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if name := path.Join(folder, e.Name()); e.IsDir() && e.Name() != "testdata" && !named[name] {
					t.Errorf("%s/README.md does not name the folder %s", wing, name)
				}
			}
		}
	}
}
