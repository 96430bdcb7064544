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
		for folder := range folders(t, filepath.Join(top, wing), named) {
			if !named[folder] {
				t.Errorf("%s/README.md does not name the folder %s", wing, folder)
			}
		}
	}
}

// folders are the folders of a wing: all of internal where the README does not name internal itself.
func folders(t *testing.T, wing string, named map[string]bool) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, pattern := range []string{"*", "internal/*"} {
		paths, err := filepath.Glob(filepath.Join(wing, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			name := strings.TrimPrefix(p, wing+"/")
			info, err := os.Stat(p)
			if err == nil && info.IsDir() && path.Base(p) != "testdata" && named["internal"] != (path.Dir(name) == "internal") {
				all[name] = true
			}
		}
	}
	if !named["internal"] {
		delete(all, "internal")
	}
	return all
}
