package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every variable that the code reads is documented, and nothing else is.
func TestEnvironmentIsDocumented(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "environment.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(GOCCL_[A-Z_]+)`").FindAllSubmatch(page, -1) {
		documented[string(m[1])] = true
	}
	// A variable between two programs of goccl itself is no user's concern.
	internal := map[string]bool{"GOCCL_PERF_TERMINAL": true}
	read := map[string]string{}
	names := map[string]*regexp.Regexp{
		".go": regexp.MustCompile(`"(GOCCL_[A-Z_]+)"`),
		".c":  regexp.MustCompile(`getenv\("(GOCCL_[A-Z_]+)"`),
		".py": regexp.MustCompile(`environ(?:\.get\(|\[)"(GOCCL_[A-Z_]+)"`),
	}
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch {
			case rel != "." && strings.HasPrefix(d.Name(), "."), d.Name() == "build", d.Name() == "testdata", rel == filepath.Join("internal", "doctor"),
				strings.HasSuffix(rel, "test"), d.Name() == "tests":
				return filepath.SkipDir
			}
			return nil
		}
		name := names[filepath.Ext(path)]
		if name == nil || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range name.FindAllSubmatch(text, -1) {
			read[string(m[1])] = rel
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for v, file := range read {
		if !documented[v] && !internal[v] {
			t.Errorf("%s (%s) is not in docs/environment.md", v, file)
		}
	}
	for v := range documented {
		if _, ok := read[v]; !ok {
			t.Errorf("docs/environment.md documents %s, which nothing reads", v)
		}
	}
	// What doctor does not know it reports as misspelt.
	doctor, err := os.ReadFile(filepath.Join(root, "internal", "doctor", "environment.go"))
	if err != nil {
		t.Fatal(err)
	}
	for v := range documented {
		if !strings.Contains(string(doctor), `"`+v+`":`) {
			t.Errorf("internal/doctor/environment.go does not know %s", v)
		}
	}
}
