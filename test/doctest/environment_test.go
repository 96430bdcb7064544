package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccl/goccl/internal/setting"
)

// variables matches the variables that each kind of source reads, by file name suffix. The first group of a pattern is
// the name.
var variables = map[string]*regexp.Regexp{
	".go":      regexp.MustCompile(`"((?:GO|N)CCL_[A-Z0-9_]+)"`),
	".c":       regexp.MustCompile(`(?:getenv|shim_setting|shim_plugin)\("((?:GO|N)CCL_[A-Z0-9_]+)"`),
	".py":      regexp.MustCompile(`"((?:GO|N)CCL_[A-Z0-9_]+)"`),
	".sh":      regexp.MustCompile(`\$\{?((?:GO|N)CCL_[A-Z0-9_]+)`),
	"Makefile": regexp.MustCompile(`\$\{?((?:GO|N)CCL_[A-Z0-9_]+)`),
}

// elsewhere lists directories that name variables without reading them, and directories that do not contain goccl's
// sources.
var elsewhere = []string{"build", "internal/setting", "cmd/goccl/internal/doctor", "cmd/goccl/internal/perf",
	"python/build",
	"python/tests", "python/examples"}

// readVariables is every variable that a source reads, with one file that does. Tests' own variables are left out, but
// for the one that users set.
func readVariables(t *testing.T, root string) map[string]string {
	read := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			for _, e := range elsewhere {
				if rel == filepath.FromSlash(e) {
					return filepath.SkipDir
				}
			}
			if rel == "." {
				return nil
			}
			if strings.HasPrefix(d.Name(), ".") || rel != "test" && strings.HasSuffix(d.Name(), "test") ||
				d.Name() == "testdata" && !strings.HasPrefix(rel, "capi") {
				return filepath.SkipDir
			}
			return nil
		}
		kind := filepath.Ext(path)
		if kind == "" {
			kind = d.Name()
		}
		pattern := variables[kind]
		if pattern == nil || strings.HasPrefix(rel, filepath.Join("capi", "testdata")) && kind != ".sh" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range pattern.FindAllSubmatch(text, -1) {
			if name := string(m[1]); !strings.HasSuffix(path, "_test.go") || name == "GOCCL_FULL" {
				read[name] = rel
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// Every variable of goccl or NCCL that a source reads, or that is in the table of package setting, begins a row of
// docs/environment.md, and no other variable does.
func TestVariablesAreDocumented(t *testing.T) {
	root, page := environmentPage(t)
	read := readVariables(t, root)
	for _, v := range setting.Variables() {
		for _, name := range []string{v.Name, v.Alias} {
			if strings.Contains(name, "CCL_") && name != "GOCCL_PERF_TERMINAL" { // between a program and its test
				read[name] = "internal/setting"
			}
		}
	}
	page, _, _ = strings.Cut(page, "\n### Ignored\n")
	documented := map[string]bool{}
	for row := range strings.Lines(page) {
		if cells := strings.Split(row, " | "); strings.HasPrefix(row, "| `") {
			for _, m := range regexp.MustCompile("`((?:GO|N)CCL_[A-Z0-9_]+)`").FindAllStringSubmatch(cells[0], -1) {
				documented[m[1]] = true
			}
		}
	}
	for name, file := range read {
		if !documented[name] {
			t.Errorf("%s reads %s, which docs/environment.md does not describe", file, name)
		}
	}
	for name := range documented {
		if read[name] == "" && name != "NCCL_NVLS_ENABLE" { // goccl has no multicast: nothing to read
			t.Errorf("docs/environment.md describes %s, which nothing reads", name)
		}
	}
}

func environmentPage(t *testing.T) (root, page string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "environment.md"))
	if err != nil {
		t.Fatal(err)
	}
	return root, string(text)
}

// Every launcher variable that joining reads is on the page, by its name or by a family like SLURM_*.
func TestLaunchersAreDocumented(t *testing.T) {
	root, page := environmentPage(t)
	_, section, ok := strings.Cut(page, "\n## Of launchers\n")
	if !ok {
		t.Fatal("docs/environment.md says nothing of launchers")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	text, err := os.ReadFile(filepath.Join(root, "job", "bootstrap", "env.go"))
	if err != nil {
		t.Fatal(err)
	}
	var families []string
	for _, m := range regexp.MustCompile("`([A-Z][A-Z0-9_]*_)\\*`").FindAllStringSubmatch(section, -1) {
		families = append(families, m[1])
	}
	found := 0
	for _, m := range regexp.MustCompile(`"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|RANK)"`).FindAllStringSubmatch(string(text),
		-1) {
		name := m[1]
		found++
		if strings.HasPrefix(name, "GOCCL_") || strings.Contains(section, "`"+name+"`") || slices.ContainsFunc(families,
			func(f string) bool { return strings.HasPrefix(name, f) }) {
			continue
		}
		t.Errorf("job/bootstrap/env.go looks at %s, which docs/environment.md does not name", name)
	}
	if found < 20 {
		t.Errorf("only %d variables were found in bootstrap/env.go: this test reads it no more", found)
	}
}
